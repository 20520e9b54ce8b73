//! Runs the conformance suite against every backend. Each test starts a real server of its own.

use firstbyte_testkit::conformance::{
    a_listing_of_several_pages_is_complete, a_version_is_stable_until_the_content_changes,
    any_range_of_an_empty_object_is_empty, deleting_removes_only_the_named_objects,
    modification_time_and_metadata_are_preserved, objects_and_their_ranges_have_the_right_bytes,
    parts_can_be_sent_in_any_order,
};
use firstbyte_testkit::{Quirk, Subject, conformance};

conformance!(local, Local);
conformance!(versitygw, Versitygw);
conformance!(minio, Minio);
conformance!(serve_s3, ServeS3);
conformance!(serve_http, ServeHttp);
conformance!(gateway, Gateway);
conformance!(nginx, Nginx);
conformance!(google, Google);
conformance!(azure, Azure);
conformance!(sftp, Sftp);
conformance!(scripted, WithoutQuirks);
conformance!(minio_tls, MinioTls);
conformance!(serve_s3_tls, ServeS3Tls);
conformance!(serve_http_tls, ServeHttpTls);

/// Quirks of a server that callers of the store do not notice.
const UNNOTICED_QUIRKS: [Quirk; 9] = [
    Quirk::BareTags,
    Quirk::CapitalTags,
    Quirk::Slow,
    Quirk::ErrorsInSuccess,
    Quirk::NoChecksums,
    Quirk::NoDeleteMany,
    Quirk::ClockAhead,
    Quirk::ClockBehind,
    Quirk::PlusForSpace,
];

#[test]
fn the_contract_holds_under_quirks_that_a_caller_does_not_notice() {
    for quirk in UNNOTICED_QUIRKS {
        eprintln!("{}", quirk.name());
        let subject = || Subject::with_quirks(&[quirk]);
        a_version_is_stable_until_the_content_changes(&subject());
        objects_and_their_ranges_have_the_right_bytes(&subject());
        any_range_of_an_empty_object_is_empty(&subject());
        modification_time_and_metadata_are_preserved(&subject());
        parts_can_be_sent_in_any_order(&subject());
        deleting_removes_only_the_named_objects(&subject());
        a_listing_of_several_pages_is_complete(&subject());
    }
}
