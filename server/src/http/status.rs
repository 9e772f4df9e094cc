//! The driver as the source of what the pages show.

use leasehold_proto::v1::StatusReply;

use super::StatusSource;
use crate::driver::DriverHandle;
use crate::grpc;

impl StatusSource for DriverHandle {
    async fn status(&self) -> Option<StatusReply> {
        grpc::status(self).await.ok()
    }
}
