//! Origins, by which links are compared.

#[allow(dead_code, reason = "only comparing is tested")]
#[path = "../../../crates/store/src/origin.rs"]
mod origin;
pub(crate) use origin::Origin;
