//! Which setting is in force when the file, the environment, the command line
//! and the operator say different things: what `leasehold status` shows.

use leasehold_integration_tests::{
    cli::{leasehold, leasehold_json},
    server::Server,
};

/// What each of three databases is told by the file, by the environment and on
/// the command line, so that no layer always says the default.
const TOLD: [(&str, [&str; 3]); 3] = [
    ("orders", ["fair", "strict", "unfair"]),
    ("reports", ["unfair", "fair", "strict"]),
    ("stock-eu", ["strict", "unfair", "fair"]),
];
/// What is in force when nobody says anything.
const DEFAULT: &str = "fair";

/// Starts a server that is told by some of the three.
async fn start(by: [bool; 3]) -> Server {
    let [by_file, by_environment, by_command_line] = by;
    let mut file = String::new();
    let (mut environment, mut arguments) = (Vec::new(), Vec::new());
    for (name, [in_file, in_environment, on_command_line]) in TOLD {
        let admission = if by_file { format!("admission = '{in_file}'") } else { String::new() };
        file.extend([&format!("[databases.{name}]"), "cap = 5", &admission].map(|line| format!("{line}\n")));
        if by_environment {
            let name = name.replace('-', "_").to_uppercase();
            environment.push((format!("LEASEHOLD__DATABASES__{name}__ADMISSION"), in_environment));
        }
        if by_command_line {
            arguments.extend(["--set".to_owned(), format!("databases.{name}.admission={on_command_line}")]);
        }
    }
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, *value)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Server::start_told(&file, &environment, &arguments).await
}

/// The mode of each database as `leasehold status` shows it.
async fn shown(server: &Server) -> Vec<String> {
    let status = leasehold_json(&server.url(), &["status"]).await;
    let databases = status["databases"].as_array().expect("the databases");
    let mode = |name: &str| {
        let database = databases.iter().find(|database| database["name"] == name).expect("the database");
        database["admission"].as_str().expect("its mode").to_owned()
    };
    TOLD.iter().map(|(name, _)| mode(name)).collect()
}

async fn set(server: &Server, arguments: &[&str]) {
    for (name, _) in TOLD {
        let ran = leasehold(&server.url(), &[&["set", name], arguments].concat()).await;
        assert_eq!(ran.code, 0, "{}", ran.complaint);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_the_mode_in_force_whoever_says_one() {
    for combination in 0..8_u8 {
        let by = [1, 2, 4].map(|bit| combination & bit != 0);
        let mut server = start(by).await;
        let highest = by.iter().rposition(|says| *says);
        let configured: Vec<&str> =
            TOLD.iter().map(|(_, modes)| highest.map_or(DEFAULT, |highest| modes[highest])).collect();
        assert_eq!(shown(&server).await, configured, "file, environment, command line: {by:?}");

        // What an operator sets live is above all three, until it is cleared.
        for mode in ["fair", "strict", "unfair"] {
            set(&server, &["--admission", mode]).await;
            assert_eq!(shown(&server).await, [mode; 3], "set live over {by:?}");
        }
        server.stop().await;
        server.restart().await;
        assert_eq!(shown(&server).await, ["unfair"; 3], "a restart over {by:?}");
        set(&server, &["--clear", "admission"]).await;
        assert_eq!(shown(&server).await, configured, "cleared over {by:?}");
    }
}
