//! Codes of AWS regions, and the check that refuses an unknown region.

use crate::nearest::nearest;

/// Regions of AWS's commercial partition, China and GovCloud, used to detect misspelt names.
/// Another region, such as a private data centre, is accepted if a catalogue has a price for that
/// region.
pub const REGIONS: &str = "us-east-1 us-east-2 us-west-1 us-west-2 af-south-1 ap-east-1 ap-east-2 ap-northeast-1 \
    ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 ap-southeast-2 \
    ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7 ca-central-1 \
    ca-west-1 cn-north-1 cn-northwest-1 eu-central-1 eu-central-2 eu-north-1 eu-south-1 \
    eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 mx-central-1 \
    sa-east-1 us-gov-east-1 us-gov-west-1";

/// The error for a region that neither AWS nor the catalogue knows.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("there is no region `{name}`{}", crate::nearest::nearest_hint(.nearest))]
pub struct UnknownRegion {
    /// The unknown name.
    pub name: String,
    /// The closest names.
    pub nearest: Vec<String>,
}

/// Refuses `name` unless it is a region of AWS or in `own`.
pub(super) fn check<'a>(name: &str, own: impl Iterator<Item = &'a str>) -> Result<(), UnknownRegion> {
    let known: Vec<&str> = REGIONS.split_whitespace().chain(own).collect();
    if known.contains(&name) {
        return Ok(());
    }
    Err(UnknownRegion { name: name.to_owned(), nearest: nearest(name, known) })
}
