//! What operators may set for workloads, what is refused, and what is left when
//! overrides end.

use std::time::Duration;

use super::*;
use crate::driver::overrides::{Setting, tests::layers};

const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

/// A cap of 100; web has a floor of 20 and a limit of 60, batch nothing.
fn divided() -> Layers {
    let mut layers = layers();
    let named = |name: &str, floor, limit| WorkloadConfig {
        name: name.to_owned(),
        weight: 1,
        floor,
        keep: false,
        limit,
        max_waiting: None,
    };
    layers.configured.workloads = vec![named("batch", 0, None), named("web", 20, Some(60))];
    layers
}

fn of(name: &str) -> WorkloadOverride {
    WorkloadOverride { name: Arc::from(name), ..WorkloadOverride::default() }
}

fn set(workload: WorkloadOverride) -> OverrideRequest {
    OverrideRequest { workloads: vec![workload], ..OverrideRequest::default() }
}

fn in_force(layers: &Layers, name: &str) -> WorkloadSettings {
    let settings = layers.settings();
    settings.workloads.iter().find(|workload| &*workload.name == name).expect("a workload").clone()
}

#[test]
fn each_setting_lies_on_top_of_the_configuration_until_it_is_cleared() {
    let mut layers = divided();
    let all = WorkloadOverride {
        weight: Some(3),
        floor: Some(30),
        keep: Some(true),
        limit: Some(50),
        max_waiting: Some(500),
        ..of("web")
    };
    layers.set(&set(all), 0).expect("it is taken");
    let web = in_force(&layers, "web");
    assert_eq!((web.weight, web.floor, web.keep), (3, 30, true));
    assert_eq!((web.limit, web.max_waiting), (Some(50), Some(500)));
    assert_eq!(in_force(&layers, "batch"), in_force(&divided(), "batch"), "no other is touched");

    layers.set(&set(WorkloadOverride { weight: Some(7), ..of("batch") }), 0).expect("it is taken");
    layers.set(&set(WorkloadOverride { weight: Some(4), ..of("web") }), 0).expect("it is taken");
    assert_eq!((in_force(&layers, "web").weight, in_force(&layers, "batch").weight), (4, 7));
    assert_eq!(layers.operator().overrides.len(), 6, "one for each setting");

    let clear = WorkloadOverride { clear: WorkloadSetting::ALL.to_vec(), ..of("web") };
    layers.set(&set(clear), 0).expect("it is taken");
    assert_eq!(in_force(&layers, "web"), in_force(&divided(), "web"));
    assert_eq!(in_force(&layers, "batch").weight, 7);
}

#[test]
fn the_default_needs_no_section() {
    let mut layers = divided();
    layers.set(&set(WorkloadOverride { limit: Some(5), ..of("default") }), 0).expect("it is taken");
    assert_eq!(in_force(&layers, "default").limit, Some(5));
}

#[test]
fn what_contradicts_is_refused_and_changes_nothing() {
    let web = || of("web");
    let above_limit =
        |floor, limit| Err(Contradiction::FloorAboveLimit { workload: Arc::from("web"), floor, limit });
    let refused = |workload: WorkloadOverride, why: Result<(), Contradiction>| {
        let mut layers = divided();
        let mut request = set(workload);
        request.cap = Some(90);
        assert_eq!(layers.set(&request, 0), why);
        assert_eq!(layers.operator(), divided().operator());
    };
    refused(WorkloadOverride { floor: Some(80), ..web() }, above_limit(80, 60));
    refused(WorkloadOverride { limit: Some(10), ..web() }, above_limit(20, 10));
    refused(WorkloadOverride { floor: Some(9), limit: Some(8), ..web() }, above_limit(9, 8));
    refused(
        WorkloadOverride { keep: Some(true), ..of("batch") },
        Err(Contradiction::KeepWithoutFloor { workload: Arc::from("batch") }),
    );
    let known = ["default", "batch", "web"].map(Arc::from).to_vec();
    refused(
        WorkloadOverride { weight: Some(2), ..of("wbe") },
        Err(Contradiction::UnknownWorkload { name: Arc::from("wbe"), known }),
    );
}

/// Together with what it contradicts by itself it may be set.
#[test]
fn what_fits_together_is_taken_together() {
    let mut layers = divided();
    let both = WorkloadOverride { floor: Some(80), limit: Some(80), ..of("web") };
    layers.set(&set(both), 0).expect("it is taken");
    // Back to a limit of 60, below the floor that stays.
    let clear = WorkloadOverride { clear: vec![WorkloadSetting::Limit], ..of("web") };
    let why = Contradiction::FloorAboveLimit { workload: Arc::from("web"), floor: 80, limit: 60 };
    assert_eq!(layers.set(&set(clear), 0), Err(why));
    let both = vec![WorkloadSetting::Limit, WorkloadSetting::Floor];
    layers.set(&set(WorkloadOverride { clear: both, ..of("web") }), 0).expect("it is taken");
}

#[test]
fn floors_above_a_configured_cap_are_refused_and_above_a_lowered_one_taken() {
    let mut layers = divided();
    let floor = |name: &str, floor| set(WorkloadOverride { floor: Some(floor), ..of(name) });
    let above = |floors, cap| Err(Contradiction::FloorsAboveCap { floors, cap });
    assert_eq!(layers.set(&floor("batch", 81), 0), above(101, 100));
    // Lowered for a while: the floors come back with the cap.
    layers.set(&OverrideRequest { cap: Some(50), ..OverrideRequest::default() }, 0).expect("it is taken");
    layers.set(&floor("batch", 60), 0).expect("it is taken");
    assert_eq!(layers.set(&floor("batch", 81), 0), above(101, 100));
    // Raised, they may be as high as it is.
    layers.set(&OverrideRequest { cap: Some(200), ..OverrideRequest::default() }, 0).expect("it is taken");
    layers.set(&floor("batch", 150), 0).expect("it is taken");
    let clear = OverrideRequest { clear: vec![Setting::Cap], ..OverrideRequest::default() };
    layers.set(&clear, 0).expect("the core scales floors down");
    // Too much still, but less than before.
    layers.set(&floor("batch", 90), 0).expect("it is taken");
}

#[test]
fn overrides_that_end_leave_what_contradicts_to_the_core() {
    let mut layers = divided();
    let limit = WorkloadOverride { limit: Some(90), ..of("web") };
    let for_a_minute = OverrideRequest { duration: MINUTE, ..set(limit) };
    layers.set(&for_a_minute, 0).expect("it is taken");
    layers.set(&set(WorkloadOverride { floor: Some(80), ..of("web") }), 0).expect("it is taken");
    assert!(layers.expire(60_000));
    let web = in_force(&layers, "web");
    assert_eq!((web.floor, web.limit), (80, Some(60)));
    // What has nothing to do with it can be set.
    layers.set(&set(WorkloadOverride { weight: Some(2), ..of("web") }), 0).expect("it is taken");
}

#[test]
fn overrides_of_a_workload_that_is_gone_do_nothing_and_can_be_cleared() {
    let mut layers = divided();
    layers.set(&set(WorkloadOverride { weight: Some(2), ..of("web") }), 0).expect("it is taken");
    layers.configured.workloads.retain(|workload| workload.name != "web");
    assert_eq!(layers.settings().workloads.iter().count(), 2);
    assert!(layers.set(&set(WorkloadOverride { weight: Some(3), ..of("web") }), 0).is_err());
    let clear = || set(WorkloadOverride { clear: vec![WorkloadSetting::Weight], ..of("web") });
    layers.set(&clear(), 0).expect("it is taken");
    assert_eq!(layers.operator().overrides, []);
    assert!(layers.set(&clear(), 0).is_err(), "there is nothing to clear");
}

#[test]
fn the_audit_log_says_what_was_set() {
    let workload = WorkloadOverride {
        clear: vec![WorkloadSetting::Limit],
        weight: Some(3),
        keep: Some(false),
        max_waiting: Some(9),
        ..of("web")
    };
    assert_eq!(workload.to_string(), "workload web (clear limit, weight 3, keep off, max_waiting 9)");
}
