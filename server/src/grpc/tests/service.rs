//! Operators, health, reflection, and the end.

use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use super::*;

#[tokio::test]
async fn operators_look_and_steer() {
    let served = Served::start(10).await;
    let (mut node, _) = served.node(1).await;
    let mut admin = served.admin().await;
    let status = admin.status(v1::StatusRequest {}).await.expect("it answers").into_inner();
    assert!(status.store_healthy && status.generation == 1 && !status.version.is_empty());
    assert_eq!((status.databases[0].cap, &*status.databases[0].on_loss), (10, "fence"));

    let set = v1::SetOverrideRequest {
        database: "orders".to_owned(),
        cap: Some(8),
        quantum_ms: Some(0),
        duration_ms: Some(60_000),
        ..v1::SetOverrideRequest::default()
    };
    let set = admin.set_override(set).await.expect("it is done").into_inner().database.expect("it is there");
    assert_eq!((set.cap, set.cap_limit, &*set.admission), (8, Some(8), "strict"));
    let shown: Vec<_> = set.overrides.iter().map(|kept| format!("{} {}", kept.setting, kept.value)).collect();
    assert_eq!(shown, ["cap 8", "quantum 0ms"]);
    assert!(set.overrides.iter().all(|kept| kept.remaining_ms.is_some_and(|left| left <= 60_000)));

    let of_default = |floor| v1::SetOverrideRequest {
        database: "orders".to_owned(),
        workloads: vec![v1::WorkloadOverride {
            workload: "default".to_owned(),
            floor: Some(floor),
            limit: Some(6),
            keep: Some(true),
            ..v1::WorkloadOverride::default()
        }],
        ..v1::SetOverrideRequest::default()
    };
    let refused = admin.set_override(of_default(7)).await.expect_err("it contradicts itself");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let why = "the workload `default` would have a floor of 7, above its limit of 6; nothing was changed";
    assert_eq!(refused.message(), why);
    let set = admin.set_override(of_default(5)).await.expect("it is done").into_inner();
    let set = set.database.expect("it is there");
    assert_eq!((set.workloads[0].floor, set.workloads[0].limit), (5, Some(6)));
    let of_workload = set.overrides.iter().filter(|kept| kept.workload == "default");
    let shown: Vec<_> = of_workload.map(|kept| format!("{} {}", kept.setting, kept.value)).collect();
    assert_eq!(shown, ["floor 5", "keep on", "limit 6"]);
    let mut unknown = of_default(5);
    unknown.workloads[0].workload = "web".to_owned();
    let refused = admin.set_override(unknown).await.expect_err("it is unknown");
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.message(), "no workload `web` at this database, which has `default`");

    let database = "orders".to_owned();
    let drained = admin.drain(v1::DrainRequest { database: database.clone() }).await.expect("it is done");
    assert!(drained.into_inner().database.expect("it is there").draining);
    let resumed = admin.resume(v1::ResumeRequest { database: database.clone() }).await.expect("it is done");
    assert!(!resumed.into_inner().database.expect("it is there").draining);

    let request = v1::ListSessionsRequest { database };
    let sessions = admin.list_sessions(request).await.expect("it answers").into_inner().sessions;
    assert_eq!((&*sessions[0].node, &*sessions[0].state), ("node-1", "attached"));
    let evict = |session: &str| v1::EvictRequest { session: session.to_owned() };
    assert_eq!(admin.evict(evict("01")).await.expect_err("too short").code(), Code::InvalidArgument);
    assert_eq!(admin.evict(evict("99999999")).await.expect_err("unknown").code(), Code::NotFound);
    let evicted = admin.evict(evict("01010101")).await.expect("it is done").into_inner();
    assert_eq!(evicted.session.expect("it is there").id, sessions[0].id);
    assert!(matches!(node.next().await, server_message::Kind::Gone(_)));
    assert_eq!(node.end().await.code(), Code::Ok);
    let request = v1::ListDatabasesRequest { database: "lost".to_owned() };
    assert_eq!(admin.list_databases(request).await.expect_err("unknown").code(), Code::NotFound);
    served.stop().await;
}

#[tokio::test]
async fn operators_ask_why_somebody_waits() {
    let served = Served::start(3).await;
    let (node, welcome) = served.node(1).await;
    let mut leases = served.leases().await;
    leases.acquire(acquire(3, Duration::ZERO)).await.expect("it is leased");
    let mut admin = served.admin().await;
    let mut ask = async |subject: &str, database: &str| {
        let (subject, database) = (subject.to_owned(), database.to_owned());
        admin.why(v1::WhyRequest { subject, database }).await.map(tonic::Response::into_inner)
    };
    node.send(waits(welcome.databases[1].sequence, 2)).await;
    until("the node waits", || async { served.waiting().await == 2 }).await;
    for subject in ["node-1", "01010101", "01010101010101010101010101010101"] {
        let found = ask(subject, "orders").await.expect("it is there");
        let [told] = &found.explanations[..] else { panic!("{found:?}") };
        assert_eq!((&*told.node, &*told.database, told.demand, told.need), ("node-1", "orders", 2, 2));
        assert_eq!((told.place, told.in_line, told.share_thousandths), (Some(1), 1, Some(0)));
        assert_eq!((&*told.reason, told.rule), ("no_donor", 0));
        assert_eq!((&*told.holders[0].node, found.left_out), ("script", 0));
    }
    assert_eq!(ask("script", "").await.expect("it is there").explanations[0].reason, "nothing");
    for nobody in ["node-2", "0202020202"] {
        assert_eq!(ask(nobody, "").await.expect_err("nobody is").code(), Code::NotFound);
    }
    assert_eq!(ask("node-1", "lost").await.expect_err("unknown").code(), Code::NotFound);
    assert_eq!(ask("", "").await.expect_err("no name").code(), Code::InvalidArgument);
    served.stop().await;
}

#[tokio::test]
async fn the_server_says_whether_it_serves() {
    let served = Served::start(10).await;
    let mut health = HealthClient::new(served.channel().await);
    for service in ["", "leasehold.v1.LeaseService", "leasehold.v1.AdminService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let serving = || async {
            let checked = health.clone().check(request.clone()).await;
            checked.is_ok_and(|reply| reply.into_inner().status == 1)
        };
        until("it serves", serving).await;
    }
    let mut watch = health.watch(HealthCheckRequest::default()).await.expect("it answers").into_inner();
    assert_eq!(watch.message().await.expect("no error").expect("it goes on").status, 1);
    drop((watch, health));
    served.stop().await;
}

#[tokio::test]
async fn the_server_describes_its_services() {
    let served = Served::start(10).await;
    let mut reflection = ServerReflectionClient::new(served.channel().await);
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    let answers = reflection.server_reflection_info(tokio_stream::once(request)).await.expect("it answers");
    let answer = answers.into_inner().message().await.expect("no error").expect("it answers");
    let Some(MessageResponse::ListServicesResponse(services)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: Vec<String> = services.service.into_iter().map(|service| service.name).collect();
    for name in ["leasehold.v1.LeaseService", "leasehold.v1.AdminService", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_streams_and_calls() {
    let served = Served::start(1).await;
    let (mut node, _) = served.node(1).await;
    let mut leases = served.leases().await;
    leases.acquire(acquire(1, Duration::ZERO)).await.expect("it is leased");
    let waiting = v1::AcquireRequest { request_id: REQUEST.replace('4', "5"), ..acquire(1, PATIENCE) };
    let call = tokio::spawn(async move { leases.acquire(waiting).await });
    until("the call waits", || async { served.waiting().await == 1 }).await;
    served.stop().await;
    assert_eq!(node.end().await.code(), Code::Unavailable);
    let call = call.await.expect("it does not panic").expect_err("it was not leased");
    assert_eq!(call.code(), Code::Unavailable);
}
