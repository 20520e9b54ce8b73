//! Passes on an object without caching, in one response from its first byte to its last, because
//! its server states no length, or sends nothing that identifies the content.

use std::io;

use bytes::Bytes;
use firstbyte_hydrate::BLOCK;
use firstbyte_location::{Strength, to_usize};
use firstbyte_store::{Get, Store};
use tokio::sync::mpsc;

use super::error::GatewayRefusal;
use super::object::RemoteObject;
use super::reading::Budgets;
use crate::http::response::ResponseBody;

/// Pieces queued between the receiving thread and the client.
const MAX_QUEUED_PIECES: usize = 1;

/// Returns the whole object as a stream, in the version of its look-up if it has one. A thread
/// receives it as fast as the client takes it.
pub(super) async fn body(
    store: &Store,
    object: &RemoteObject,
    budgets: &Budgets,
) -> Result<ResponseBody, GatewayRefusal> {
    let share = budgets.share().await.map_err(|error| GatewayRefusal::Failed(error.to_string()))?;
    let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(MAX_QUEUED_PIECES);
    let (opened, begun) = tokio::sync::oneshot::channel();
    let (store, location) = (store.clone(), object.location().clone());
    // Without a version, each answer may have other bytes and another length.
    let version = Some(object.stat.version.clone()).filter(|version| version.strength() != Strength::None);
    let get = Get { version, ..Get::default() };
    tokio::task::spawn_blocking(move || {
        let _share = share;
        let mut body = match store.get(&location, &get) {
            Ok(body) => body,
            Err(error) => return drop(opened.send(Err(GatewayRefusal::from(error)))),
        };
        if opened.send(Ok(())).is_err() {
            return;
        }
        let mut buffer = vec![0; to_usize(BLOCK) / 2];
        loop {
            let piece = match body.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => Ok(Bytes::copy_from_slice(&buffer[..read])),
                Err(error) => Err(io::Error::other(error)),
            };
            let is_last = piece.is_err();
            // Stops if the client has left, or if `piece` is an error.
            if sender.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    begun.await.map_err(|_| GatewayRefusal::Failed("the thread that receives has ended".to_owned()))??;
    Ok(ResponseBody::Stream(Box::pin(futures::stream::poll_fn(move |context| receiver.poll_recv(context)))))
}
