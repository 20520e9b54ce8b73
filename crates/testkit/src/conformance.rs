//! What every store promises, written once. Each function is one promise; [`conformance!`](crate::conformance!) makes
//! them tests of one kind of place, each with a server of its own.

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

/// Makes a module of tests: every promise, at one [`Place`](crate::Place).
#[macro_export]
macro_rules! conformance {
    ($module:ident, $place:ident) => {
        mod $module {
            $crate::conformance!(@each $place,
                a_version_stays_until_the_content_changes
                a_pinned_version_that_was_replaced_is_an_error_that_names_both
                readers_see_the_old_content_or_the_new_never_a_mixture
                every_name_below_comes_once_in_byte_order
                one_level_shows_directories_instead_of_what_is_in_them
                a_listing_starts_after_the_name_given
                a_listing_holds_the_names_that_begin_as_asked
                a_listing_of_thousands_comes_whole
                names_that_stay_are_listed_once_while_others_come_and_go
                listing_a_prefix_names_what_is_below_it_from_there
                parts_sent_in_any_order_make_the_whole
                an_upload_is_taken_up_again_from_the_parts_that_are_there
                an_aborted_upload_leaves_nothing
                every_legal_name_survives
                a_key_that_is_no_path_is_kept_apart_or_refused
                the_longest_key_survives
                stat_tells_the_length
                whole_objects_and_their_ranges_are_exact
                a_range_is_cut_at_the_end_and_none_begins_past_it
                any_range_of_an_empty_object_is_empty
                bytes_go_to_a_file_seen_and_unseen
                what_is_not_there_is_not_found
                what_is_denied_is_said_to_be_denied
                a_write_replaces_and_is_stated_as_it_is_found
                a_part_of_a_file_is_written
                time_and_metadata_come_back
                writes_keep_their_preconditions
                a_copy_inside_the_service_is_the_same_object
                deleting_removes_one_and_only_what_is_named
            );
        }
    };
    (@each $place:ident, $($promise:ident)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::conformance::$promise(&$crate::Subject::start($crate::Place::$place));
            }
        )*
    };
}
