//! Every bound that `.proto` names, and messages of any content.

use proptest::{collection::vec, prelude::*, sample::Index};
use prost::Message as _;

use super::*;

const REQUEST: &str = "4f9a6c3e-8d5b-4c1a-9e7f-0123456789ab";

fn names(name: &str) -> Option<DatabaseId> {
    (name == "orders").then_some(DatabaseId(0))
}

/// What a refusal says.
fn told<T>(parsed: Result<T, Refused>) -> String {
    match parsed {
        Ok(_) => "taken".to_owned(),
        Err(Refused::Invalid { field, problem }) => format!("`{field}` {problem}"),
        Err(Refused::UnknownDatabase(name)) => format!("no database {name}"),
    }
}

fn claim(database: &str) -> v1::Claim {
    v1::Claim { database: database.to_owned(), demand: Some(v1::Demand::default()) }
}

fn good_hello() -> v1::Hello {
    v1::Hello {
        session: vec![7; 16],
        node: "web-1".to_owned(),
        claims: vec![claim("orders")],
        ..v1::Hello::default()
    }
}

fn good_acquire() -> v1::AcquireRequest {
    v1::AcquireRequest {
        request_id: REQUEST.to_owned(),
        node: "script".to_owned(),
        database: "orders".to_owned(),
        tokens: 1,
        ..v1::AcquireRequest::default()
    }
}

/// What becomes of a good Hello after a change.
fn hello_with(change: impl FnOnce(&mut v1::Hello)) -> String {
    let mut message = good_hello();
    change(&mut message);
    told(hello(message, &names))
}

fn demand_with(change: impl FnOnce(&mut v1::Demand)) -> String {
    let mut message = v1::Demand::default();
    change(&mut message);
    told(demand(message))
}

fn acquire_with(change: impl FnOnce(&mut v1::AcquireRequest)) -> String {
    let mut message = good_acquire();
    change(&mut message);
    told(acquire(message, &names))
}

fn override_with(change: impl FnOnce(&mut v1::SetOverrideRequest)) -> String {
    let mut message = v1::SetOverrideRequest::default();
    change(&mut message);
    told(override_request(&message))
}

#[test]
fn a_hello_keeps_to_its_bounds() {
    assert_eq!(hello_with(|_| {}), "taken");
    assert_eq!(hello_with(|hello| hello.session = vec![7; 15]), "`session` has 15 bytes and must have 16");
    assert_eq!(hello_with(|hello| hello.session = vec![0; 16]), "`session` is all zero and must be random");
    assert_eq!(hello_with(|hello| hello.node.clear()), "`node` is missing");
    assert_eq!(hello_with(|hello| hello.node = "ü".repeat(64)), "taken");
    let long = "`node` has 130 bytes, at most 128 are allowed";
    assert_eq!(hello_with(|hello| hello.node = "ü".repeat(65)), long);
    assert_eq!(hello_with(|hello| hello.node = "a\nb".to_owned()), "`node` has a control character");
    let long = "`workload` has 129 bytes, at most 128 are allowed";
    assert_eq!(hello_with(|hello| hello.workload = "w".repeat(129)), long);
    let long = "`client` has 129 bytes, at most 128 are allowed";
    assert_eq!(hello_with(|hello| hello.client = "c".repeat(129)), long);
}

#[test]
fn a_hello_claims_each_database_once() {
    let many = |count: usize| (0..count).map(|number| claim(&number.to_string())).collect();
    assert_eq!(hello_with(|hello| hello.claims = many(64)), "taken");
    let refusal = "`claims` has 65 entries, at most 64 are allowed";
    assert_eq!(hello_with(|hello| hello.claims = many(65)), refusal);
    let twice = "`claims[1].database` claims `orders` for the second time";
    assert_eq!(hello_with(|hello| hello.claims.push(claim("orders"))), twice);
    let unknown = "`claims[1].database` claims `lost` for the second time";
    assert_eq!(hello_with(|hello| hello.claims = vec![claim("lost"), claim("lost")]), unknown);
    let missing = "`claims[0].demand` is missing";
    assert_eq!(hello_with(|hello| hello.claims[0].demand = None), missing);
    let other = "`claims[0].demand.database` names another database than the claim";
    let name_other = |hello: &mut v1::Hello| {
        let demand = v1::Demand { database: "reports".to_owned(), ..v1::Demand::default() };
        hello.claims[0].demand = Some(demand);
    };
    assert_eq!(hello_with(name_other), other);
    let low = "`claims[0].demand.holding` is 0, below established + opening + closing = 1";
    let hold_less = |hello: &mut v1::Hello| {
        hello.claims[0].demand = Some(v1::Demand { closing: 1, ..v1::Demand::default() });
    };
    assert_eq!(hello_with(hold_less), low);
}

#[test]
fn a_hello_keeps_the_place_of_databases_that_are_unknown() {
    let mut message = good_hello();
    message.claims = vec![claim("lost"), claim("orders"), claim("gone")];
    let hello = hello(message, &names).expect("it is taken");
    let found: Vec<Option<DatabaseId>> = hello.places.iter().map(|place| place.database).collect();
    assert_eq!(found, [None, Some(DatabaseId(0)), None]);
    assert_eq!(hello.claims.len(), 1);
    assert_eq!(&*hello.workload, "default");
}

#[test]
fn the_levels_of_a_demand_fit_together() {
    let good = |demand: &mut v1::Demand| {
        (demand.holding, demand.established, demand.opening, demand.closing) = (6, 3, 2, 1);
        (demand.in_use, demand.idle) = (2, 1);
    };
    assert_eq!(demand_with(good), "taken");
    let low = demand_with(|demand| {
        good(demand);
        demand.holding = 5;
    });
    assert_eq!(low, "`holding` is 5, below established + opening + closing = 6");
    let low = demand_with(|demand| {
        good(demand);
        demand.idle = 2;
    });
    assert_eq!(low, "`established` is 3, below in_use + idle = 4");
    // The sum does not overflow.
    let huge = demand_with(|demand| (demand.opening, demand.closing) = (u32::MAX, u32::MAX));
    assert_eq!(huge, "`holding` is 0, below established + opening + closing = 8589934590");
    let huge = demand_with(|demand| demand.holding = u32::MAX);
    assert_eq!(huge, "`holding` is 4294967295, at most 1000000 is allowed");
    let long = demand_with(|demand| demand.traceparent = "0".repeat(257));
    assert_eq!(long, "`traceparent` is longer than 256 bytes");
}

#[test]
fn a_need_beyond_all_measure_is_cut_to_measure() {
    let message = v1::Demand {
        waiting: u32::MAX,
        wanted: u32::MAX,
        oldest_wait_us: u64::MAX,
        mean_hold_us: u64::MAX,
        ..v1::Demand::default()
    };
    let demand = demand(message).expect("it is taken").demand;
    assert_eq!((demand.waiting, demand.wanted), (NODE_COUNT, NODE_COUNT));
    assert_eq!((demand.oldest_wait, demand.mean_hold), (LONGEST, LONGEST));
}

#[test]
fn an_acquire_keeps_to_its_bounds() {
    assert_eq!(acquire_with(|_| {}), "taken");
    let form = "`request_id` must be a UUID: 8-4-4-4-12 hexadecimal digits";
    for id in
        ["", "hello", &REQUEST.replace('-', ""), &format!("{{{REQUEST}}}"), &"x".repeat(36), &"ü".repeat(18)]
    {
        assert_eq!(acquire_with(|acquire| acquire.request_id = id.to_owned()), form, "{id}");
    }
    assert_eq!(acquire_with(|acquire| acquire.request_id = REQUEST.to_uppercase()), "taken");
    let nil = Uuid::nil().to_string();
    assert_eq!(acquire_with(|acquire| acquire.request_id = nil), "`request_id` is the nil UUID");
    let bounds = "`tokens` is 0 and must be 1 to 10000";
    assert_eq!(acquire_with(|acquire| acquire.tokens = 0), bounds);
    assert_eq!(acquire_with(|acquire| acquire.tokens = 10_000), "taken");
    let bounds = "`tokens` is 10001 and must be 1 to 10000";
    assert_eq!(acquire_with(|acquire| acquire.tokens = 10_001), bounds);
    let bounds = "`max_wait_ms` is 600001 and must be 0 to 600000";
    assert_eq!(acquire_with(|acquire| acquire.max_wait_ms = 600_001), bounds);
    assert_eq!(acquire_with(|acquire| acquire.node.clear()), "`node` is missing");
    assert_eq!(acquire_with(|acquire| acquire.database.clear()), "`database` is missing");
    assert_eq!(acquire_with(|acquire| acquire.database = "lost".to_owned()), "no database lost");
}

#[test]
fn a_release_names_what_it_releases() {
    let node = "script".to_owned();
    let nothing = v1::ReleaseRequest { target: None, node: node.clone() };
    assert_eq!(told(release(&nothing)), "`target` is missing: give lease_id or request_id");
    let target = Some(v1::release_request::Target::LeaseId("1".to_owned()));
    let bad = v1::ReleaseRequest { target, node };
    assert_eq!(told(release(&bad)), "`lease_id` must be a UUID: 8-4-4-4-12 hexadecimal digits");
}

#[test]
fn an_override_keeps_to_its_bounds() {
    assert_eq!(override_with(|set| set.cap = Some(1)), "taken");
    assert_eq!(override_with(|set| set.cap = Some(0)), "`cap` is 0 and must be 1 to 1000000");
    assert_eq!(override_with(|set| set.quantum_ms = Some(0)), "taken");
    let bounds = "`quantum_ms` is 19 and must be 20 to 60000";
    assert_eq!(override_with(|set| set.quantum_ms = Some(19)), bounds);
    let bounds = "`admission` must be fair, strict or unfair";
    assert_eq!(override_with(|set| set.admission = Some("free".to_owned())), bounds);
    let names = "`clear` names a setting that is not cap, reserve, admission, quantum or shadow";
    assert_eq!(override_with(|set| set.clear = vec!["caps".to_owned()]), names);
    let nothing = "`cap` and all other settings are unset: there is nothing to change";
    assert_eq!(override_with(|_| {}), nothing);
    let clear = |set: &mut v1::SetOverrideRequest| set.clear = vec!["cap".to_owned()];
    assert_eq!(override_with(clear), "taken");
    let no_setting = "`duration_ms` is set, but no setting that it could be for";
    let clear_for = |set: &mut v1::SetOverrideRequest| {
        clear(set);
        set.duration_ms = Some(1);
    };
    assert_eq!(override_with(clear_for), no_setting);
    let bounds = "`duration_ms` is 0 and must be 1 to 31622400000";
    assert_eq!(override_with(|set| (set.cap, set.duration_ms) = (Some(1), Some(0))), bounds);
}

#[test]
fn an_override_of_a_workload_keeps_to_its_bounds() {
    let web = || v1::WorkloadOverride { workload: "web".to_owned(), ..v1::WorkloadOverride::default() };
    let with = |workloads: &[v1::WorkloadOverride]| override_with(|set| set.workloads = workloads.to_vec());
    let all = v1::WorkloadOverride {
        weight: Some(1_000),
        floor: Some(0),
        keep: Some(false),
        limit: Some(1),
        max_waiting: Some(1),
        clear: ["weight", "floor", "keep", "limit", "max_waiting"].map(str::to_owned).to_vec(),
        ..web()
    };
    assert_eq!(with(std::slice::from_ref(&all)), "taken");
    let weight = |weight| with(&[v1::WorkloadOverride { weight: Some(weight), ..web() }]);
    assert_eq!(weight(0), "`workloads[0].weight` is 0 and must be 1 to 1000");
    assert_eq!(weight(1_001), "`workloads[0].weight` is 1001 and must be 1 to 1000");
    let limit = v1::WorkloadOverride { limit: Some(0), ..web() };
    assert_eq!(with(&[limit]), "`workloads[0].limit` is 0 and must be 1 to 1000000");
    let max_waiting = v1::WorkloadOverride { max_waiting: Some(0), ..web() };
    assert_eq!(with(&[max_waiting]), "`workloads[0].max_waiting` is 0 and must be 1 to 10000000");
    let nameless = v1::WorkloadOverride { weight: Some(1), ..v1::WorkloadOverride::default() };
    assert_eq!(with(&[all.clone(), nameless]), "`workloads[1].workload` is missing");
    assert_eq!(with(&[all.clone(), all.clone()]), "`workloads[1].workload` names `web` for the second time");
    let nothing = "`workloads[0].weight` and all other settings are unset: there is nothing to change";
    assert_eq!(with(&[web()]), nothing);
    let names = "`workloads[0].clear` names a setting that is not weight, floor, keep, limit or max_waiting";
    assert_eq!(with(&[v1::WorkloadOverride { clear: vec!["cap".to_owned()], ..web() }]), names);
    let many: Vec<_> =
        (0..66).map(|number| v1::WorkloadOverride { workload: format!("{number}"), ..all.clone() }).collect();
    assert_eq!(with(&many), "`workloads` has 66 entries, at most 65 are allowed");
    let clear_for = |set: &mut v1::SetOverrideRequest| {
        set.workloads = vec![v1::WorkloadOverride { clear: vec!["weight".to_owned()], ..web() }];
        set.duration_ms = Some(1);
    };
    assert_eq!(override_with(clear_for), "`duration_ms` is set, but no setting that it could be for");
}

#[test]
fn a_session_is_named_by_eight_digits_or_more() {
    assert_eq!(session_prefix("ABCDEF01"), Ok("abcdef01".to_owned()));
    for bad in ["", "abcdef0", "abcdefgh", &"0".repeat(33), "üüüü"] {
        assert_eq!(told(session_prefix(bad)), "`session` must be 8 to 32 hexadecimal digits");
    }
}

/// Small and huge numbers, so that sums meet their bounds.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![0..5_u32, NODE_COUNT - 2..NODE_COUNT + 2, any::<u32>()]
}

fn any_demand() -> impl Strategy<Value = v1::Demand> {
    let counts = [(); 8].map(|()| count());
    (prop_oneof![Just("orders".to_owned()), ".{0,200}"], counts, any::<[u64; 4]>(), ".{0,300}").prop_map(
        |(database, counts, [acknowledged, oldest_wait_us, mean_hold_us, mean_connect_us], traceparent)| {
            let [holding, established, opening, closing, in_use, idle, waiting, wanted] = counts;
            v1::Demand {
                database,
                acknowledged,
                holding,
                established,
                opening,
                closing,
                in_use,
                idle,
                waiting,
                wanted,
                oldest_wait_us,
                mean_hold_us,
                mean_connect_us,
                traceparent,
            }
        },
    )
}

fn any_claim() -> impl Strategy<Value = v1::Claim> {
    (prop_oneof![Just("orders".to_owned()), ".{0,200}"], proptest::option::of(any_demand()))
        .prop_map(|(database, demand)| v1::Claim { database, demand })
}

/// Bytes from the network: any at all, or a good message with some of its bytes
/// changed or missing.
fn bytes_like<M: prost::Message>(good: &[M]) -> impl Strategy<Value = Vec<u8>> + use<M> {
    let good: Vec<Vec<u8>> = good.iter().map(M::encode_to_vec).collect();
    let edits = vec((any::<Index>(), any::<u8>()), 0..4);
    let edited = (prop::sample::select(good), edits, any::<Index>()).prop_map(|(mut bytes, edits, end)| {
        for (at, to) in edits {
            *at.get_mut(&mut bytes) = to;
        }
        bytes.truncate(bytes.len() - end.index(bytes.len()) / 4);
        bytes
    });
    prop_oneof![vec(any::<u8>(), 0..100), edited]
}

/// What a stream may carry.
fn good_messages() -> [v1::NodeMessage; 2] {
    let demand = v1::Demand {
        database: "orders".to_owned(),
        acknowledged: 7,
        holding: 300,
        established: 3,
        in_use: 2,
        idle: 1,
        waiting: 1_000,
        wanted: 1_003,
        oldest_wait_us: 1 << 40,
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        ..v1::Demand::default()
    };
    let claims = vec![v1::Claim { database: "orders".to_owned(), demand: Some(demand.clone()) }];
    let hello = v1::Hello { claims, client: "leasehold 0.1".to_owned(), ..good_hello() };
    [v1::node_message::Kind::Hello(hello), v1::node_message::Kind::Demand(demand)]
        .map(|kind| v1::NodeMessage { kind: Some(kind) })
}

fn good_release() -> v1::ReleaseRequest {
    let target = Some(v1::release_request::Target::LeaseId(REQUEST.to_owned()));
    v1::ReleaseRequest { target, node: "script".to_owned() }
}

fn good_override() -> v1::SetOverrideRequest {
    v1::SetOverrideRequest {
        database: "orders".to_owned(),
        cap: Some(300),
        admission: Some("fair".to_owned()),
        quantum_ms: Some(100),
        duration_ms: Some(60_000),
        clear: vec!["reserve".to_owned()],
        workloads: vec![v1::WorkloadOverride {
            workload: "web".to_owned(),
            weight: Some(3),
            floor: Some(20),
            clear: vec!["limit".to_owned()],
            ..v1::WorkloadOverride::default()
        }],
        ..v1::SetOverrideRequest::default()
    }
}

proptest! {
    #[test]
    fn fuzz_a_stream_of_any_bytes(bytes in bytes_like(&good_messages())) {
        let Ok(message) = v1::NodeMessage::decode(&bytes[..]) else { return Ok(()) };
        match message.kind {
            Some(v1::node_message::Kind::Hello(message)) => {
                if let Ok(hello) = hello(message, &names) {
                    prop_assert!(hello.session != SessionId::LOST && !hello.node.is_empty());
                    prop_assert!(hello.claims.iter().all(|claim| claim.demand.holding <= NODE_COUNT));
                }
            }
            Some(v1::node_message::Kind::Demand(message)) => {
                if let Ok(Report { demand, .. }) = demand(message) {
                    prop_assert_eq!(demand.unopened() + demand.possible(), demand.holding);
                }
            }
            Some(v1::node_message::Kind::KeepAlive(_) | v1::node_message::Kind::Goodbye(_)) | None => {}
        }
    }

    #[test]
    fn fuzz_calls_of_any_bytes(
        call in bytes_like(&[good_acquire()]),
        ending in bytes_like(&[good_release()]),
        change in bytes_like(&[good_override()]),
    ) {
        if let Ok((call, wait)) =
            v1::AcquireRequest::decode(&call[..]).map_err(drop).and_then(|call| acquire(call, &names).map_err(drop))
        {
            prop_assert!(LEASE_TOKENS.contains(&call.tokens) && call.request != SessionId::LOST);
            prop_assert!(wait <= Duration::from_millis(MAX_WAIT_MS));
        }
        if let Ok(message) = v1::ReleaseRequest::decode(&ending[..]) {
            let _ = release(&message);
        }
        if let Ok(message) = v1::RenewRequest::decode(&ending[..]) {
            let _ = renew(&message);
        }
        if let Ok(message) = v1::EvictRequest::decode(&ending[..]) {
            let _ = session_prefix(&message.session);
        }
        if let Ok(message) = v1::SetOverrideRequest::decode(&change[..]) {
            let _ = database(&message.database, &names);
            if let Ok(change) = override_request(&message) {
                prop_assert!(change.cap.is_none_or(|cap| limits::CAP.contains(&cap)));
                prop_assert!(change.reserve.is_none_or(|reserve| limits::RESERVE.contains(&reserve)));
                for workload in &change.workloads {
                    prop_assert!(workload.weight.is_none_or(|weight| limits::WEIGHT.contains(&weight)));
                    prop_assert!(workload.limit.is_none_or(|limit| limits::LIMIT.contains(&limit)));
                }
            }
        }
    }

    #[test]
    fn fuzz_what_is_taken_of_any_demand_fits_together(message in any_demand()) {
        if let Ok(Report { demand, .. }) = demand(message) {
            prop_assert!(demand.holding <= NODE_COUNT);
            prop_assert_eq!(demand.unopened() + demand.possible(), demand.holding);
            prop_assert!(demand.in_use + demand.idle <= demand.established);
        }
    }

    #[test]
    fn fuzz_what_is_taken_of_any_hello_has_one_place_for_each_claim(
        session in vec(any::<u8>(), 15..18),
        node in ".{0,140}",
        workload in ".{0,140}",
        claims in vec(any_claim(), 0..6),
        generation in any::<u64>(),
        client in ".{0,140}",
    ) {
        let count = claims.len();
        let message = v1::Hello { session, node, workload, claims, generation, client };
        if let Ok(hello) = hello(message, &names) {
            prop_assert_eq!(hello.places.len(), count);
            let known = hello.places.iter().filter(|place| place.database.is_some()).count();
            prop_assert_eq!(hello.claims.len(), known);
        }
    }

    #[test]
    fn fuzz_unary_calls_of_any_content_do_no_harm(
        id in prop_oneof![Just(REQUEST.to_owned()), ".{0,60}"],
        text in ".{0,200}",
        tokens in count(),
        max_wait_ms in any::<u64>(),
    ) {
        let message = v1::AcquireRequest {
            request_id: id.clone(),
            node: text.clone(),
            database: "orders".to_owned(),
            tokens,
            workload: text.clone(),
            max_wait_ms,
        };
        if let Ok((call, _)) = acquire(message, &names) {
            prop_assert!(LEASE_TOKENS.contains(&call.tokens));
        }
        let target = Some(v1::release_request::Target::RequestId(id.clone()));
        let _ = release(&v1::ReleaseRequest { target, node: text.clone() });
        let _ = renew(&v1::RenewRequest { lease_id: id, node: text.clone() });
        let _ = session_prefix(&text);
        let _ = database(&text, &names);
    }
}
