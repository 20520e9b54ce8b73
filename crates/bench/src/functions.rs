//! Functions: a local host that runs them as AWS Lambda does, and the calls to functions on that
//! host or on Lambda.
//!
//! The host has both of Lambda's APIs: callers send events to the Invoke API, and environments
//! fetch them from the Runtime API. Each environment has the memory, the share of a processor and
//! the network of a function. Figures of the host are emulated.

mod calls;
mod code;
mod environment;
mod host;
mod http;
mod invoke_api;
mod launching;
pub(crate) mod sandbox;
mod server;
mod settings;
mod size;
mod spawner;

pub use calls::Calls;
pub use code::Source;
pub use server::FunctionServer;
pub use settings::{HostSettings, SlowDirectory};
pub use size::FunctionSize;
pub(crate) use size::MachineCapacity;
