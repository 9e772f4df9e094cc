//! The end of a connection: a goodbye when it is at rest, a KILL when a command
//! was cut off. Either returns when the server has closed its end, for only
//! then is the token free. Knows nothing of tokens; the pool bounds the whole
//! with its `close_timeout`.

use std::{future::pending, pin::pin, time::Duration};

use mysql_async::{Conn, prelude::Queryable as _};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::{
    connection::{Condition, Connection, Thread},
    manager::{Manager, reset},
    socket::{Sight, Socket},
};
use crate::{hooks::Spare, pool::Checkout};

/// Longest wait for the reset before a goodbye. Without the reset a large
/// transaction would be rolled back after the goodbye, unseen.
const RESET_BOUND: Duration = Duration::from_secs(2);
/// Longest wait for the driver to send its goodbye.
const GOODBYE_BOUND: Duration = Duration::from_secs(1);
/// Longest wait for the server to close after a goodbye.
const FAREWELL_BOUND: Duration = Duration::from_secs(1);
/// How much longer a slot may stay taken when there is no socket to watch, or
/// the driver has found it dead: servers were seen to take up to 75 ms.
const UNSEEN_GRACE: Duration = Duration::from_millis(100);
/// Pause before a connection is asked for to KILL with, and between two such.
const KILL_PAUSE: Duration = Duration::from_millis(50);
/// Pauses between the KILLs of one connection, of which the last shall find no
/// such thread.
const GONE_PAUSES: [Duration; 6] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
    Duration::from_millis(32),
];
/// The server has no thread of this number.
const NO_SUCH_THREAD: u16 = 1094;

/// Closes `connection` in whichever way its condition asks for.
pub(super) async fn close(mut connection: Connection, spare: Spare<Manager>) {
    let at_rest = match connection.condition() {
        Condition::Clean | Condition::Unsettled => {
            matches!(timeout(RESET_BOUND, reset(&mut connection)).await, Ok(Ok(())))
        }
        Condition::Lost => false,
    };
    if at_rest {
        say_goodbye(connection).await;
    } else {
        cut_off(connection, spare).await;
    }
}

async fn say_goodbye(connection: Connection) {
    let thread = connection.thread().id;
    // Opened before the driver closes its own.
    let sight = connection.socket().map(Socket::look);
    match timeout(GOODBYE_BOUND, connection.into_driver().disconnect()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(thread, %error, "the goodbye failed"),
        Err(_elapsed) => debug!(thread, "the goodbye took too long"),
    }
    let closed = async {
        match sight {
            Some(Sight::Open(socket)) => socket.closed_by_server().await,
            Some(Sight::Severed(socket)) => socket.abandoned_by_server().await,
            Some(Sight::Closed) | None => sleep(UNSEEN_GRACE).await,
        }
    };
    if timeout(FAREWELL_BOUND, closed).await.is_err() {
        warn!(thread, "the server has not closed a connection after its goodbye");
    }
}

async fn cut_off(connection: Connection, spare: Spare<Manager>) {
    let thread = connection.thread().clone();
    let sight = connection.socket().map(Socket::look);
    // Closes the driver's descriptor and sends nothing.
    drop(connection.into_driver());
    match sight {
        // The server sees the end of input only when its query has ended.
        Some(Sight::Open(socket)) => {
            socket.end_output();
            killed_or_ended(&thread, socket.closed_by_server(), &spare).await;
        }
        Some(Sight::Severed(socket)) => {
            killed_or_ended(&thread, socket.abandoned_by_server(), &spare).await;
        }
        // The server closed it first, or spoke out of turn and will notice at
        // its next word.
        Some(Sight::Closed) => sleep(UNSEEN_GRACE).await,
        None => kill_until_gone(&thread, &spare).await,
    }
}

/// Returns when the server has `closed`, because the query ended by itself
/// before a connection was to be had for a KILL, or when the KILL has worked.
async fn killed_or_ended(thread: &Thread, closed: impl Future<Output = ()>, spare: &Spare<Manager>) {
    let mut closed = pin!(closed);
    // Most often nothing ran any more.
    if timeout(KILL_PAUSE, &mut closed).await.is_ok() {
        return;
    }
    let helper = tokio::select! {
        () = &mut closed => return,
        helper = spare.connection() => helper,
    };
    match kill(thread, helper).await {
        // At a KILL the server closes the socket at once, the thread ends later.
        Killed::Ending => kill_until_gone(thread, spare).await,
        Killed::Gone => {}
        Killed::Not => closed.await,
    }
}

/// Repeats the KILL until there is no such thread, as nothing else tells. Does
/// not return when nobody can do it: then the pool's `close_timeout` decides.
async fn kill_until_gone(thread: &Thread, spare: &Spare<Manager>) {
    loop {
        match kill(thread, spare.connection().await).await {
            Killed::Ending => sleep(KILL_PAUSE).await,
            Killed::Gone => return,
            Killed::Not => pending().await,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    /// The server ends it.
    Ending,
    /// The server has no such thread any more.
    Gone,
    /// Nobody could do it.
    Not,
}

/// Ends `thread` on the server through another connection of the pool. That
/// one has a token of its own, so the KILL never passes the cap. Not to be
/// dropped half-way: the helper would be lost, too.
async fn kill(thread: &Thread, helper: Option<Checkout<Manager>>) -> Killed {
    let Some(mut helper) = helper else {
        debug!(thread = thread.id, "no connection to kill a cancelled query with");
        return Killed::Not;
    };
    if !thread.is_on_server_of(helper.thread()) {
        warn!(
            thread = thread.id,
            "a cancelled query runs on another server, or behind a proxy; it is not killed"
        );
        return Killed::Not;
    }
    let mut killed = say_kill(&mut helper, thread.id).await;
    for pause in GONE_PAUSES {
        if killed != Killed::Ending {
            break;
        }
        sleep(pause).await;
        killed = say_kill(&mut helper, thread.id).await;
    }
    debug!(thread = thread.id, ?killed, "KILL of a cancelled query");
    killed
}

async fn say_kill(helper: &mut Conn, thread: u32) -> Killed {
    match helper.query_drop(format!("KILL CONNECTION {thread}")).await {
        Ok(()) => Killed::Ending,
        Err(mysql_async::Error::Server(answer)) if answer.code == NO_SUCH_THREAD => Killed::Gone,
        Err(error) => {
            warn!(thread, %error, "cannot kill a cancelled query");
            Killed::Not
        }
    }
}
