//! Defines the contract of every store. Each function checks one rule.
//! [`conformance!`](crate::conformance!) turns the functions into tests of one backend, each with
//! its own server.

mod change;
mod listing;
mod multipart;
mod names;
mod reading;
mod writing;

pub use change::*;
pub use listing::*;
pub use multipart::*;
pub use names::*;
pub use reading::*;
pub use writing::*;

/// Makes a module with a test of every rule for one [`Backend`](crate::Backend).
#[macro_export]
macro_rules! conformance {
    ($module:ident, $place:ident) => {
        mod $module {
            $crate::conformance!(@each $place,
                a_version_is_stable_until_the_content_changes
                reading_a_replaced_version_fails_and_names_both_versions
                readers_see_the_old_or_the_new_content_and_never_a_mixture
                a_recursive_listing_has_every_name_once_in_byte_order
                a_listing_of_one_level_has_directories_instead_of_their_entries
                a_listing_starts_after_the_given_name
                a_listing_by_beginning_has_only_names_with_it
                a_listing_of_several_pages_is_complete
                permanent_names_are_listed_once_while_others_are_added_and_removed
                names_in_a_listing_are_relative_to_its_prefix
                parts_can_be_sent_in_any_order
                an_interrupted_upload_resumes_with_the_missing_parts
                an_aborted_upload_leaves_no_parts
                every_legal_name_is_preserved
                a_key_that_is_not_a_path_is_distinct_or_refused
                the_longest_key_is_preserved
                stat_returns_length_and_kind
                objects_and_their_ranges_have_the_right_bytes
                a_range_is_cut_at_the_end_and_fails_if_it_starts_after_it
                any_range_of_an_empty_object_is_empty
                bytes_reach_a_file_by_splice_and_through_memory
                a_missing_object_is_reported_as_not_found
                missing_rights_are_reported_as_denied
                a_write_replaces_the_object_and_returns_its_version
                a_range_of_a_file_can_be_written
                modification_time_and_metadata_are_preserved
                writes_honour_their_preconditions
                a_copy_within_the_service_is_the_same_object
                deleting_removes_only_the_named_objects
            );
        }
    };
    (@each $place:ident, $($promise:ident)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::conformance::$promise(&$crate::Subject::start($crate::Backend::$place));
            }
        )*
    };
}
