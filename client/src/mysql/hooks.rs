//! What the pool asks of this driver beyond deadpool's `Manager`. Only
//! translates: the work is in the neighbouring files.

use std::{future::ready, sync::Arc};

use super::{
    close,
    connection::{Condition, Connection},
    error::Error,
    manager::{Manager, reset},
};
use crate::hooks::{self, BoxFuture, OnReturn, Severer, Spare};

/// The hooks of [`Manager`], to be given to the pool along with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hooks;

impl hooks::Hooks<Manager> for Hooks {
    fn on_return(&self, connection: &mut Connection) -> OnReturn {
        match connection.condition() {
            Condition::Clean => OnReturn::Pool,
            Condition::Unsettled => OnReturn::Reset,
            Condition::Lost => OnReturn::Close,
        }
    }

    fn reset<'a>(&'a self, connection: &'a mut Connection) -> BoxFuture<'a, bool> {
        Box::pin(async { reset(connection).await.is_ok() })
    }

    fn close(&self, connection: Connection, spare: Spare<Manager>) -> BoxFuture<'static, ()> {
        Box::pin(close::close(connection, spare))
    }

    fn severer(&self, connection: &Connection) -> Option<Severer> {
        let socket = connection.socket()?.clone();
        Some(Arc::new(move || -> BoxFuture<'static, ()> {
            // A query that runs now goes on in the server to its end: the
            // session's `fence_grace` covers that.
            socket.sever();
            Box::pin(ready(()))
        }))
    }

    fn is_refused_for_now(&self, error: &Error) -> bool {
        error.is_not_yet()
    }
}
