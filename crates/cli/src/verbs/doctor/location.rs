//! Checks a location with the first part of `probe`. Makes a finding for each right, for the region
//! and the clock, and for how a directory on NFS is mounted. Called by `doctor`.

use std::borrow::Cow;

use firstbyte_location::{Location, redacted};
use firstbyte_probe::{AccessReport, ProbeRights, Right};
use firstbyte_store::{Error as StoreError, Outages};

use super::network::{ENDPOINT_TIMEOUT, REPORTED_SKEW_SECONDS};
use super::{CheckStatus, DoctorFinding, nfs};
use crate::globals::Globals;
use crate::render::error::Result;

pub(super) fn look(location: &Location, globals: &Globals) -> Result<Vec<DoctorFinding>> {
    let mut options = globals.options().store;
    options.read_deadline = options.read_deadline.min(ENDPOINT_TIMEOUT);
    options.connect_deadline = options.connect_deadline.min(ENDPOINT_TIMEOUT);
    options.outages = Outages::FailFast;
    options.retries = 0;
    let access = firstbyte_probe::access(&globals.store_of(options)?, location, ProbeRights::ReadOnly);
    let mut found = findings(&access);
    if let Location::Local(path) = location {
        found.extend(nfs::look(path));
    }
    Ok(found)
}

fn findings(access: &AccessReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    if !access.single {
        let missing = access
            .list_failed
            .filter(|kind| kind.is_absence())
            .and_then(|_| StoreError::NotFound { location: access.location.clone(), trace: None }.advice());
        let otherwise = "give this user the right to list, or name one object";
        findings.push(right_finding("list", &access.list, missing, otherwise));
    }
    findings.push(match access.empty {
        true => {
            DoctorFinding::warn("read", "not tried: found no file with content", "name a place with data")
        }
        false => right_finding("read", &access.read, None, read_advice(access)),
    });
    if let Some(endpoint) = &access.endpoint {
        findings.push(DoctorFinding::ok("endpoint", redacted(endpoint)));
        findings.push(match &access.region {
            Some(region) => DoctorFinding::ok("region", region),
            None => DoctorFinding::ok("region", "not set: that of the bucket is found"),
        });
    }
    if let Some(ahead) = access.clock_ahead {
        let found = format!("{ahead:+} s from this machine's");
        findings.push(match ahead.abs() > REPORTED_SKEW_SECONDS {
            true => {
                DoctorFinding::warn("clock", found, "set the clock (NTP): signatures expire after 15 minutes")
            }
            false => DoctorFinding::ok("clock", found),
        });
    }
    findings
}

/// Returns advice about the right to read. Testing it needs the name of an object, which a failed
/// listing does not give.
fn read_advice(access: &AccessReport) -> &'static str {
    match (&access.read, &access.list) {
        (Right::NotTried, Right::Refused(_)) => "name an object to test reading",
        _ => "give this user the right to read",
    }
}

/// Makes the finding of a right. The remedy is `own`, else that of the cause, and `otherwise` if
/// the user lacks only this right.
fn right_finding(
    what: &'static str,
    right: &Right,
    own: Option<Cow<'static, str>>,
    otherwise: &'static str,
) -> DoctorFinding {
    match right {
        Right::Granted => DoctorFinding::ok(what, "yes"),
        Right::Refused(refusal) => {
            let advice = own.or_else(|| refusal.remedy(otherwise).map(Cow::Owned));
            let (status, found) = (CheckStatus::Fail, refusal.why.clone());
            DoctorFinding { what, status, found, advice }
        }
        Right::NotTried => DoctorFinding::warn(what, "not tried", otherwise),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_probe::Refusal;

    #[test]
    fn a_refused_right_fails_and_an_empty_place_is_a_warning() {
        let refused = AccessReport { list: Right::Refused(Refusal::default()), ..AccessReport::default() };
        let found = findings(&refused);
        assert_eq!((found[0].what, found[0].status), ("list", CheckStatus::Fail));
        let empty = AccessReport { list: Right::Granted, empty: true, ..AccessReport::default() };
        let statuses: Vec<CheckStatus> = findings(&empty).iter().map(|finding| finding.status).collect();
        assert_eq!(statuses, [CheckStatus::Ok, CheckStatus::Warn]);
    }

    #[test]
    fn a_clock_that_is_off_is_a_warning() {
        let access = AccessReport {
            single: true,
            read: Right::Granted,
            clock_ahead: Some(-300),
            ..AccessReport::default()
        };
        let clock = findings(&access).pop().unwrap();
        assert_eq!((clock.status, clock.found.as_str()), (CheckStatus::Warn, "-300 s from this machine's"));
    }
}
