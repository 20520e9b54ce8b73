//! Checks a location with the first part of `probe`: a finding for each right, the region, the
//! clock, and the mount of a directory on NFS.

use firstbyte_location::{Location, redacted};
use firstbyte_probe::{Access, Right, Rights};
use firstbyte_store::{FailureKind, Outages};

use super::network::{PATIENCE, SKEW};
use super::{Finding, nfs};
use crate::globals::Globals;
use crate::render::error::Result;

pub(super) fn look(location: &Location, globals: &Globals) -> Result<Vec<Finding>> {
    let mut options = globals.options().store;
    options.read_deadline = options.read_deadline.min(PATIENCE);
    options.connect_deadline = options.connect_deadline.min(PATIENCE);
    options.outages = Outages::FailFast;
    options.retries = 0;
    let access = firstbyte_probe::access(&globals.store_of(options)?, location, Rights::ReadOnly);
    let mut found = findings(&access);
    if let Location::Local(path) = location {
        found.extend(nfs::look(path));
    }
    Ok(found)
}

fn findings(access: &Access) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !access.single {
        let advice = match &access.list_failed {
            Some(FailureKind::NotFound | FailureKind::NoSuchBucket) => "check the spelling",
            _ => "give this user the right to list, or name one object",
        };
        findings.push(right("list", &access.list, advice));
    }
    findings.push(match access.empty {
        true => Finding::warn("read", "not tried: found no file with content", "name a place with data"),
        false => right("read", &access.read, read_advice(access)),
    });
    if let Some(endpoint) = &access.endpoint {
        findings.push(Finding::ok("endpoint", redacted(endpoint)));
        findings.push(match &access.region {
            Some(region) => Finding::ok("region", region),
            None => Finding::ok("region", "not set: that of the bucket is found"),
        });
    }
    if let Some(ahead) = access.clock_ahead {
        let found = format!("{ahead:+} s from this machine's");
        findings.push(match ahead.abs() > SKEW {
            true => Finding::warn("clock", found, "set the clock (NTP): signatures expire after 15 minutes"),
            false => Finding::ok("clock", found),
        });
    }
    findings
}

/// Returns advice about reading, which needs a name: a failed listing gives none.
fn read_advice(access: &Access) -> &'static str {
    match (&access.read, &access.list) {
        (Right::NotTried, Right::Refused(_)) => "name an object to test reading",
        _ => "give this user the right to read",
    }
}

fn right(what: &'static str, right: &Right, advice: &'static str) -> Finding {
    match right {
        Right::Granted => Finding::ok(what, "yes"),
        Right::Refused(why) => Finding::fail(what, why, advice),
        Right::NotTried => Finding::warn(what, "not tried", advice),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_refused_right_fails_and_an_empty_place_is_a_warning() {
        let refused = Access { list: Right::Refused("s3://b/: access denied".into()), ..Access::default() };
        let found = findings(&refused);
        assert_eq!((found[0].what, found[0].status), ("list", Status::Fail));
        let empty = Access { list: Right::Granted, empty: true, ..Access::default() };
        let statuses: Vec<Status> = findings(&empty).iter().map(|finding| finding.status).collect();
        assert_eq!(statuses, [Status::Ok, Status::Warn]);
    }

    #[test]
    fn a_clock_that_is_off_is_a_warning() {
        let access =
            Access { single: true, read: Right::Granted, clock_ahead: Some(-300), ..Access::default() };
        let clock = findings(&access).pop().unwrap();
        assert_eq!((clock.status, clock.found.as_str()), (Status::Warn, "-300 s from this machine's"));
    }
}
