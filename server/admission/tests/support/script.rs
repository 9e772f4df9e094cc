//! Scripts that drive a world, a line at a time.

use std::time::Duration;

use leasehold_admission::DatabaseSettings;

use super::World;

/// Runs a script and compares what is left.
pub fn check(settings: DatabaseSettings, script: &str, expected: &str) -> World {
    let mut world = World::new(settings);
    run(&mut world, script);
    assert_eq!(world.show(), expected, "after:\n{script}");
    world
}

/// Runs a script: one command a line, `#` starts a comment.
///
/// `hello N [WORKLOAD]` · `wait N COUNT` (so many tasks begin to wait) · `cancel N` (all
/// stop waiting) · `return N COUNT` · `pass TIME` · `mute N` / `unmute N` (its
/// messages are held up / flow again) · `deliver N server|node` · `disconnect N`
/// · `kill N` · `restart` · `store fails|works` · `observe MAX FLEET OTHERS` ·
/// `alive N` (keep-alive) · `expect STATE`.
pub fn run(world: &mut World, script: &str) {
    for line in script.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(command) = words.first() else { continue };
        let name = words.get(1).copied().unwrap_or_default();
        let count = |at: usize| words.get(at).map_or(1, |word| word.parse().expect("a count"));
        match *command {
            "hello" => {
                world.hello(name);
                if let Some(workload) = words.get(2) {
                    (*workload).clone_into(&mut world.node(name).workload);
                    world.hello(name);
                }
            }
            "wait" => {
                let now = world.now;
                let node = world.node(name);
                if node.waiting == 0 {
                    node.waiting_since = now;
                }
                node.waiting += count(2);
                node.serve();
                world.report(name);
            }
            "cancel" => {
                world.node(name).waiting = 0;
                world.report(name);
            }
            "return" => {
                for _ in 0..count(2) {
                    world.node(name).give_back();
                    world.report(name);
                    world.pump();
                }
            }
            "pass" => world.pass(parse_duration(name)),
            "alive" => world.keep_alive(name),
            "mute" => world.node(name).prompt = false,
            "unmute" => world.node(name).prompt = true,
            "deliver" if words[2] == "server" => world.deliver_to_server(name),
            "deliver" => world.deliver_to_node(name),
            "disconnect" => world.disconnect(name),
            "kill" => world.kill(name),
            "restart" => world.restart(),
            "store" if name == "fails" => world.store_fails = true,
            "store" => world.mend_store(),
            "observe" => world.observe(count(1), count(2), count(3)),
            "expect" => assert_eq!(world.show(), words[1..].join(" "), "at: {line}"),
            other => panic!("no such command: {other}"),
        }
        world.pump();
    }
}

fn parse_duration(word: &str) -> Duration {
    let digits = word.trim_end_matches(|c: char| c.is_alphabetic());
    let number: u64 = digits.parse().expect("a duration");
    match &word[digits.len()..] {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        unit => panic!("no such unit: {unit}"),
    }
}
