//! What is accepted, what is refused, and the help that people read.

use clap::CommandFactory;

use super::{Arguments, Command, Format, Milliseconds, Setting, Switch, parsed, usage_message};

fn parse(line: &str) -> Result<Arguments, String> {
    parsed(line.split(' ')).map_err(|problem| usage_message(&problem))
}

fn refused(line: &str) -> String {
    match parse(line) {
        Ok(arguments) => panic!("{line:?} was accepted: {arguments:?}"),
        Err(message) => message,
    }
}

fn help(path: &[&str]) -> String {
    let mut command = Arguments::command();
    command.build();
    let mut found = &mut command;
    for name in path {
        found = found.find_subcommand_mut(name).expect("the subcommand exists");
    }
    found.render_help().to_string()
}

#[test]
fn global_options_may_stand_anywhere() {
    for line in [
        "leasehold --server db:9000 -o json --timeout 2s status",
        "leasehold status --server db:9000 --output json --timeout 2s",
    ] {
        let arguments = parse(line).unwrap();
        assert_eq!(arguments.server.to_string(), "http://db:9000");
        assert_eq!(arguments.output, Format::Json);
        assert_eq!(arguments.timeout.as_secs(), 2);
    }
}

#[test]
fn a_set_with_everything() {
    let line = "leasehold set orders --cap 50 --reserve 5 --admission strict --quantum 0ms --for 30m --clear cap,quantum --clear reserve";
    let Command::Set(changes) = parse(line).unwrap().command else { panic!("not a set") };
    assert_eq!((changes.cap, changes.reserve), (Some(50), Some(5)));
    assert_eq!(changes.quantum, Some(Milliseconds(0)));
    assert_eq!(changes.duration, Some(Milliseconds(1_800_000)));
    assert_eq!(changes.clear.len(), 3);
}

#[test]
fn a_set_of_a_workload() {
    let line = "leasehold set orders --workload web --weight 3 --floor 0 --keep on --limit 60 --max-waiting 5000 --for 30m";
    let Command::Set(changes) = parse(line).unwrap().command else { panic!("not a set") };
    let of = &changes.of_workload;
    assert_eq!((of.workload.as_deref(), of.weight, of.floor), (Some("web"), Some(3), Some(0)));
    assert_eq!((of.keep, of.limit, of.max_waiting), (Some(Switch::On), Some(60), Some(5_000)));
    assert_eq!(changes.duration, Some(Milliseconds(1_800_000)));
    for clear in ["max-waiting", "max_waiting"] {
        let line = format!("leasehold set orders --workload web --clear weight,cap,{clear}");
        let Command::Set(changes) = parse(&line).unwrap().command else { panic!("not a set") };
        assert_eq!(changes.clear, [Setting::Weight, Setting::Cap, Setting::MaxWaiting]);
    }
}

#[test]
fn what_is_of_a_workload_names_it() {
    insta::assert_snapshot!(refused("leasehold set orders --weight 3"), @"
    leasehold: the following required arguments were not provided:
      --workload <NAME>

    Usage: leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]
                                [--shadow on|off] [--for DURATION] [--clear SETTING]...
           leasehold set <DATABASE> --workload NAME [--weight N] [--floor N] [--keep on|off]
                                [--limit N] [--max-waiting N] [--for DURATION] [--clear SETTING]...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold set orders --clear cap,max-waiting"), @"
    leasehold: '--clear max-waiting' needs '--workload <NAME>': it is a setting of a workload

    Usage: leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]
                                [--shadow on|off] [--for DURATION] [--clear SETTING]...
           leasehold set <DATABASE> --workload NAME [--weight N] [--floor N] [--keep on|off]
                                [--limit N] [--max-waiting N] [--for DURATION] [--clear SETTING]...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold set orders --workload web --cap 5"), @"
    leasehold: '--workload web' needs something to set, or to clear, of the workload

    Usage: leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]
                                [--shadow on|off] [--for DURATION] [--clear SETTING]...
           leasehold set <DATABASE> --workload NAME [--weight N] [--floor N] [--keep on|off]
                                [--limit N] [--max-waiting N] [--for DURATION] [--clear SETTING]...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold set orders --workload web --weight 1001"), @"
    leasehold: invalid value '1001' for '--weight <N>': 1001 is not in 1..=1000

    For more information, try '--help'.
    ");
}

#[test]
fn wrong_usage_is_explained() {
    insta::assert_snapshot!(refused("leasehold set orders"), @"
    leasehold: the following required arguments were not provided:
      <--cap <N>|--reserve <N>|--admission <MODE>|--quantum <DURATION>|--shadow <on|off>|--weight <N>|--floor <N>|--keep <on|off>|--limit <N>|--max-waiting <N>|--clear <SETTING>>

    Usage: leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]
                                [--shadow on|off] [--for DURATION] [--clear SETTING]...
           leasehold set <DATABASE> --workload NAME [--weight N] [--floor N] [--keep on|off]
                                [--limit N] [--max-waiting N] [--for DURATION] [--clear SETTING]...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold set orders --clear cap --for 30m"), @"
    leasehold: the following required arguments were not provided:
      <--cap <N>|--reserve <N>|--admission <MODE>|--quantum <DURATION>|--shadow <on|off>|--weight <N>|--floor <N>|--keep <on|off>|--limit <N>|--max-waiting <N>>

    Usage: leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]
                                [--shadow on|off] [--for DURATION] [--clear SETTING]...
           leasehold set <DATABASE> --workload NAME [--weight N] [--floor N] [--keep on|off]
                                [--limit N] [--max-waiting N] [--for DURATION] [--clear SETTING]...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold set orders --cap -1"), @"
    leasehold: invalid value '-1' for '--cap <N>': -1 is not in 1..=1000000

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold set orders --cap 5 --for 30"), @"
    leasehold: invalid value '30' for '--for <DURATION>': time unit needed, for example 30sec or 30ms

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold set orders --admission fare"), @"
    leasehold: invalid value 'fare' for '--admission <MODE>'
      [possible values: fair, strict, unfair]

      tip: a similar value exists: 'fair'

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold evict web-1"), @"
    leasehold: invalid value 'web-1' for '<SESSION>': `w` is not a hexadecimal digit

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold sessions --database="), @"
    leasehold: a value is required for '--database <NAME>' but none was supplied

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold --server ftp://x status"), @"
    leasehold: invalid value 'ftp://x' for '--server <URL>': `ftp://` is not supported; give http://HOST:PORT

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("leasehold --timeout 0s status"), @"
    leasehold: invalid value '0s' for '--timeout <DURATION>': must be longer than zero

    For more information, try '--help'.
    ");
}

#[test]
fn help_of_the_command() {
    insta::assert_snapshot!(help(&[]), @"
    Look at a Leasehold server and steer it

    Usage: leasehold [OPTIONS] <COMMAND>

    Commands:
      status     Show the server and its databases; exits 1 when the store is not healthy
      databases  Show every count of the databases, or everything about one
      sessions   Show who holds tokens, one line for each lease
      why        Explain what a session or a node has, what it waits for, and by which rule
      set        Override settings of a database, for a time or until cleared
      drain      Grant nothing more of a database and let what is held run out
      resume     End the drain of a database
      evict      End a session, or what is left of one in quarantine, at once

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Global options:
          --server <URL>         Server to talk to: http://HOST:PORT, HOST:PORT, HOST or [IPV6]:PORT
                                 [env: LEASEHOLD_SERVER] [default: http://127.0.0.1:7420]
      -o, --output <table|json>  Tables for people, JSON for programs [default: table]
          --timeout <DURATION>   Longest wait for the connection, and then for the answer [default: 5s]

    Examples:
      leasehold status
      leasehold sessions --database orders
      leasehold set orders --cap 50 --for 30m
      leasehold status --output json | jq '.databases[] | select(.waiting > 0)'

    Exit codes:
      0  done
      1  the server refused, or (status) is not healthy
      2  wrong usage, or the server cannot be reached
    ");
}

#[test]
fn help_of_set() {
    insta::assert_snapshot!(help(&["set"]), @"
    Override settings of a database, for a time or until cleared

    Usage: leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]
                                [--shadow on|off] [--for DURATION] [--clear SETTING]...
           leasehold set <DATABASE> --workload NAME [--weight N] [--floor N] [--keep on|off]
                                [--limit N] [--max-waiting N] [--for DURATION] [--clear SETTING]...

    Arguments:
      <DATABASE>  Name of the database

    Options:
          --cap <N>             Lease at most N tokens
          --reserve <N>         Keep N connections back for people and tools
          --admission <MODE>    Who gets a token next: fair, strict or unfair
          --quantum <DURATION>  How far a younger waiter may pass an older one: 20ms to 1m, or 0ms for
                                strict order
          --shadow <on|off>     Grant everything, whatever the cap, and count what would have waited: on
                                or off
          --for <DURATION>      End the overrides of this call after DURATION, such as 90s, 30m or 2h
          --clear <SETTING>     First clear an override: cap, reserve, admission, quantum or shadow;
                                with --workload also weight, floor, keep, limit or max-waiting; may be
                                repeated or a list
      -h, --help                Print help

    Options of a workload:
          --workload <NAME>  Set or clear what this workload of the database may have
          --weight <N>       Its part beside others that want more than there is: 1 to 1000
          --floor <N>        Tokens that it always gets when it has use for them; 0: none
          --keep <on|off>    Hold the floor free while it is not used: on or off
          --limit <N>        Most tokens that it ever holds
          --max-waiting <N>  Most tasks that wait in it; more are refused at once

    Global options:
          --server <URL>         Server to talk to: http://HOST:PORT, HOST:PORT, HOST or [IPV6]:PORT
                                 [env: LEASEHOLD_SERVER] [default: http://127.0.0.1:7420]
      -o, --output <table|json>  Tables for people, JSON for programs [default: table]
          --timeout <DURATION>   Longest wait for the connection, and then for the answer [default: 5s]

    Overrides survive restarts of the server and stay until they end or are cleared. All that
    one call asks for is done, or nothing.

    Examples:
      leasehold set orders --cap 50 --for 30m       lease at most 50 tokens for half an hour
      leasehold set orders --reserve 20             keep 20 connections back, until cleared
      leasehold set orders --admission unfair       let tokens stay where they are used
      leasehold set orders --shadow off             from now on the cap holds
      leasehold set orders --clear cap,reserve      back to the configuration
      leasehold set orders --workload web --weight 3 --floor 20 --for 30m
                                                    more for web, for half an hour
      leasehold set orders --workload web --clear weight,floor
    ");
}

#[test]
fn help_of_evict() {
    insta::assert_snapshot!(help(&["evict"]), @"
    End a session, or what is left of one in quarantine, at once

    Usage: leasehold evict [OPTIONS] <SESSION>

    Arguments:
      <SESSION>  Id of the session as `leasehold sessions` shows it, or its first 8 digits or more

    Options:
      -h, --help  Print help

    Global options:
          --server <URL>         Server to talk to: http://HOST:PORT, HOST:PORT, HOST or [IPV6]:PORT
                                 [env: LEASEHOLD_SERVER] [default: http://127.0.0.1:7420]
      -o, --output <table|json>  Tables for people, JSON for programs [default: table]
          --timeout <DURATION>   Longest wait for the connection, and then for the answer [default: 5s]

    The session's tokens become free although its connections may still be open: evict a
    session only when its node is gone or its connections are closed. A node that still
    lives comes back with what it holds.

    Example:
      leasehold evict 3f9a2c51d0b4
    ");
}
