//! Shares the answer of one call among all clients that wait for it, whether the call succeeds or
//! fails. Look-ups and questions for directories use it.

use std::future::Future;
use std::time::Instant;

use rustix_futex_sync::Mutex;

use super::error::GatewayRefusal;

/// A call that several clients wait for, and its last answer.
pub(super) struct SharedCall<T> {
    last: Mutex<Option<CallAnswer<T>>>,
    /// Locked during a call. Clients that wait for the lock share the answer.
    calling: tokio::sync::Mutex<()>,
}

/// The answer of a call, with the times at which the call began and ended.
#[derive(Clone)]
pub(super) struct CallAnswer<T> {
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) result: Result<T, GatewayRefusal>,
}

impl<T> Default for SharedCall<T> {
    fn default() -> Self {
        Self { last: Mutex::new(None), calling: tokio::sync::Mutex::default() }
    }
}

impl<T: Clone> SharedCall<T> {
    /// Returns the last answer, if `answers` accepts it.
    pub(super) fn last(&self, answers: impl Fn(&CallAnswer<T>) -> bool) -> Option<Result<T, GatewayRefusal>> {
        self.last.lock().as_ref().filter(|last| answers(last)).map(|last| last.result.clone())
    }

    /// Waits for a call in progress. Then returns the last answer if its call began at `arrived` or
    /// later, or if `answers` accepts it. Otherwise calls `ask`.
    pub(super) async fn get(
        &self,
        arrived: Instant,
        answers: impl Fn(&CallAnswer<T>) -> bool,
        ask: impl Future<Output = Result<T, GatewayRefusal>>,
    ) -> Result<T, GatewayRefusal> {
        let _calling = self.calling.lock().await;
        if let Some(shared) = self.last(|last| last.began >= arrived || answers(last)) {
            return shared;
        }
        let began = Instant::now();
        let result = ask.await;
        *self.last.lock() = Some(CallAnswer { began, ended: Instant::now(), result: result.clone() });
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn clients_that_wait_share_one_answer_also_a_failure() {
        let (call, calls) = (SharedCall::<u8>::default(), Cell::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ask = |result: Result<u8, GatewayRefusal>| {
            let calls = &calls;
            async move {
                calls.set(calls.get() + 1);
                // Yields once, so that all other clients arrive before this call answers.
                tokio::task::yield_now().await;
                result
            }
        };
        let arrived = Instant::now();
        let round = |result: Result<u8, GatewayRefusal>, arrived| {
            let clients = (0..20).map(|_| call.get(arrived, |_| false, ask(result.clone())));
            runtime.block_on(futures::future::join_all(clients))
        };
        assert!(
            round(Err(GatewayRefusal::NotFound), arrived)
                .iter()
                .all(|it| matches!(it, Err(GatewayRefusal::NotFound)))
        );
        assert_eq!(calls.get(), 1);
        // A client that arrives after the call has begun may know that the object exists by now.
        let next = loop {
            let now = Instant::now();
            if call.last(|last| last.began < now).is_some() {
                break now;
            }
        };
        assert!(round(Ok(7), next).iter().all(|it| matches!(it, Ok(7))));
        assert_eq!(calls.get(), 2);
    }
}
