//! One HTTP GET at a time, as a load balancer's health check or a scraper does
//! it. Knows nothing of what the pages say.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What came back.
#[derive(Debug)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Fetches `path`. Nothing if nobody answers there.
pub async fn get(address: SocketAddr, path: &str) -> Option<Page> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    // HTTP/1.0: the server closes at the end, and never sends in chunks.
    let question = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(question.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some(Page { status, body: body.to_owned() })
}
