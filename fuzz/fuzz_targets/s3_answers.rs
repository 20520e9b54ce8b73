//! Parses the XML answers of S3 services. Each is read or refused.
//!
//! The two modules are compiled in here, because the store's XML is private. They depend on nothing
//! else of the store.
#![no_main]

#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../crates/store/src/s3/list/answer.rs"]
mod answer;
#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../crates/store/src/s3/xml.rs"]
mod xml;
/// The path under which `answer` imports `xml`.
mod s3 {
    pub(crate) use crate::xml;
}

use libfuzzer_sys::fuzz_target;

use answer::ObjectPage;

fuzz_target!(|bytes: &[u8]| {
    if let Some(page) = ObjectPage::parse(bytes) {
        let text = std::str::from_utf8(bytes).expect("only text is read");
        let named = |name: &str| text.matches(name).count();
        assert!(page.contents.len() <= named("Contents"));
        assert!(page.common_prefixes.len() <= named("Prefix"));
        for object in &page.contents {
            // Each character of a key takes at least one byte of the answer.
            assert!(object.key.chars().count() <= bytes.len());
        }
    }
    let _ = xml::parse_root::<xml::BucketPage>("ListAllMyBucketsResult", bytes);
    let _ = xml::parse_root::<xml::Initiated>("InitiateMultipartUploadResult", bytes);
    let _ = xml::parse_root::<xml::WriteResultElement>("CompleteMultipartUploadResult", bytes);
    let _ = xml::parse_root::<xml::PartPage>("ListPartsResult", bytes);
    let _ = xml::parse_root::<xml::UploadPage>("ListMultipartUploadsResult", bytes);
    let _ = xml::parse_root::<xml::Deletion>("DeleteResult", bytes);
});
