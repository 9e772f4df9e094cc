//! Keeps `src/generated` in step with the `.proto` files.
//!
//! `LEASEHOLD_GENERATE=1 cargo test -p leasehold-proto` writes the files anew.

use std::{fs, path::Path};

use prost::Message;

const PROTOS: [&str; 2] = ["leasehold/v1/lease.proto", "leasehold/v1/admin.proto"];
const FILES: [&str; 2] = ["leasehold.v1.rs", "leasehold.v1.bin"];

#[test]
fn generated_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().expect("temporary directory");
    let descriptors = protox::compile(PROTOS, [root]).expect("the .proto files compile");
    fs::write(fresh.path().join("leasehold.v1.bin"), descriptors.encode_to_vec()).expect("write descriptors");
    tonic_prost_build::configure()
        .out_dir(fresh.path())
        .compile_fds(descriptors)
        .expect("code can be generated");

    let kept = root.join("src/generated");
    for file in FILES {
        let made = fs::read(fresh.path().join(file)).expect("generated file");
        if std::env::var_os("LEASEHOLD_GENERATE").is_some() {
            fs::write(kept.join(file), &made).expect("write generated file");
        }
        let current = fs::read(kept.join(file)).unwrap_or_default();
        assert!(
            made == current,
            "proto/src/generated/{file} is stale; run: LEASEHOLD_GENERATE=1 cargo test -p leasehold-proto"
        );
    }
}
