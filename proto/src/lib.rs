//! The gRPC API of Leasehold: messages, clients and servers of package
//! `leasehold.v1`, and the descriptor set that reflection serves.
//!
//! The code below `generated/` is made from `proto/leasehold/v1/*.proto` by the
//! test `generated_code_is_current`, so that a build needs neither `protoc` nor
//! a code generator. Knows nothing of what the messages mean.

/// Package `leasehold.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated code")]
pub mod v1 {
    include!("generated/leasehold.v1.rs");
}

/// The compiled `.proto` files with their comments, as a `FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/leasehold.v1.bin");
