//! An API on loopback for tests, which sends scripted responses.

use firstbyte_testkit::{Scripted, ScriptedReply};
use serde_json::Value;

/// Starts an API that sends these responses in order, each a status and a body.
pub(crate) fn serve(answers: &[(u16, &str)]) -> Scripted {
    let answer = |(status, body): &(u16, &str)| {
        let kind = "x-amzn-errortype: SomeException:";
        ScriptedReply::answer(&format!("{status} Status"), &[kind], body.as_bytes()).then_close()
    };
    let answers: Vec<ScriptedReply> = answers.iter().map(answer).collect();
    Scripted::start(move |number, _| answers[number].clone())
}

/// Returns the bodies of the requests that an API received.
pub(crate) fn bodies(api: &Scripted) -> Vec<Value> {
    api.requests().iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}
