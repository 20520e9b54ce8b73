//! Names the deviations of servers from S3's documentation.
//!
//! One table has the name and description of each quirk. A test that runs with every quirk reports
//! the quirk in its failures. The documents have the same names and descriptions. [`QuirkStore`]
//! implements the quirks.
//!
//! [`QuirkStore`]: crate::QuirkStore

/// One deviation of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quirk {
    /// The keys of a page are not sorted.
    UnsortedPages,
    /// The keys of a whole listing are not sorted.
    UnsortedListing,
    /// Listings have the keys of a directory `a/` before `a-b`, which sorts first.
    ListsByDirectories,
    /// `start-after` is ignored.
    IgnoresStartAfter,
    /// The last key of a page is repeated as the first key of the next page.
    RepeatsKeys,
    /// Listings contain deleted keys.
    ListsDeleted,
    /// Listings state `EncodingType url`, but send keys unencoded.
    UnencodedNames,
    /// Listings encode a space as `+`.
    PlusForSpace,
    /// Only the first version of the listing request works.
    NoListV2,
    /// Bytes follow the end of an XML document.
    TrailingGarbage,
    /// Listings have ETags without quotes.
    BareTags,
    /// Listings have ETags in capital letters.
    CapitalTags,
    /// ETags are weak.
    WeakTags,
    /// There are no ETags.
    NoTags,
    /// `If-Match` with the server's own ETag fails.
    RefusesOwnTag,
    /// Listings state the length 0 for every object.
    ListsLengthZero,
    /// HEAD states the length 0 for every object.
    HeadsLengthZero,
    /// HEAD states no length.
    HeadsNoLength,
    /// HEAD states half the length.
    HeadsHalfLength,
    /// HEAD is refused with 405.
    NoHead,
    /// HEAD is refused with 403.
    HeadDenied,
    /// Ranges are answered by 200 with the whole object.
    NoRanges,
    /// The server sends another range than the requested one.
    WrongRanges,
    /// At most 10,000 bytes are sent for a range.
    ShortRanges,
    /// The first body of each object ends in the middle.
    ShortBodies,
    /// Every body ends after at most 10,000 bytes.
    CutBodies,
    /// Bodies are sent in pieces with pauses.
    Slow,
    /// The first body of each object stops in the middle.
    Stalls,
    /// Bodies are sent in chunks, without a length.
    ChunkedBodies,
    /// The first request for each object is answered with 503.
    FlakyKeys,
    /// The first response to each write never arrives.
    LostAnswers,
    /// The first completion and copy of each object is answered with an error inside a 200.
    ErrorsInSuccess,
    /// Writes with checksum headers are refused.
    NoChecksums,
    /// Uploads in parts are refused.
    NoMultipart,
    /// DeleteObjects is refused.
    NoDeleteMany,
    /// DeleteObjects and DeleteObject deny each key.
    DeniesDeletes,
    /// The bucket is accepted only in the host name.
    HostStyleOnly,
    /// Requests for objects are redirected once.
    Redirects,
    /// The server's clock is an hour ahead.
    ClockAhead,
    /// The server's clock is an hour behind.
    ClockBehind,
}

impl Quirk {
    /// All quirks, in the order of the table in the documents.
    pub const ALL: [Self; 40] = [
        Self::UnsortedPages,
        Self::UnsortedListing,
        Self::ListsByDirectories,
        Self::IgnoresStartAfter,
        Self::RepeatsKeys,
        Self::ListsDeleted,
        Self::UnencodedNames,
        Self::PlusForSpace,
        Self::NoListV2,
        Self::TrailingGarbage,
        Self::BareTags,
        Self::CapitalTags,
        Self::WeakTags,
        Self::NoTags,
        Self::RefusesOwnTag,
        Self::ListsLengthZero,
        Self::HeadsLengthZero,
        Self::HeadsNoLength,
        Self::HeadsHalfLength,
        Self::NoHead,
        Self::HeadDenied,
        Self::NoRanges,
        Self::WrongRanges,
        Self::ShortRanges,
        Self::ShortBodies,
        Self::CutBodies,
        Self::Slow,
        Self::Stalls,
        Self::ChunkedBodies,
        Self::FlakyKeys,
        Self::LostAnswers,
        Self::ErrorsInSuccess,
        Self::NoChecksums,
        Self::NoMultipart,
        Self::NoDeleteMany,
        Self::DeniesDeletes,
        Self::HostStyleOnly,
        Self::Redirects,
        Self::ClockAhead,
        Self::ClockBehind,
    ];

    /// Returns the name, as the table in the documents has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Returns the server's behaviour, as a clause for the table in the documents.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.entry().1
    }

    fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::UnsortedPages => ("unsorted-pages", "keys within a page are in no order"),
            Self::UnsortedListing => ("unsorted-listing", "keys are in no order, across pages too"),
            Self::ListsByDirectories => ("lists-by-directories", "`a/` comes before `a-b`"),
            Self::IgnoresStartAfter => ("ignores-start-after", "every listing starts at the first key"),
            Self::RepeatsKeys => ("repeats-keys", "the last key of a page is on the next page too"),
            Self::ListsDeleted => ("lists-deleted", "listings have keys that were deleted"),
            Self::UnencodedNames => {
                ("unencoded-names", "listings state that names are URL-encoded, and they are not")
            }
            Self::PlusForSpace => ("plus-for-space", "a space in a name is `+` in listings"),
            Self::NoListV2 => ("no-list-v2", "only the first version of the listing request is known"),
            Self::TrailingGarbage => ("trailing-garbage", "bytes follow the end of every XML response"),
            Self::BareTags => ("bare-tags", "ETags in listings have no quotes"),
            Self::CapitalTags => ("capital-tags", "ETags in listings are in capitals"),
            Self::WeakTags => ("weak-tags", "ETags of objects are weak"),
            Self::NoTags => ("no-tags", "objects have no ETags"),
            Self::RefusesOwnTag => ("refuses-own-tag", "`If-Match` with the current ETag is answered 412"),
            Self::ListsLengthZero => ("lists-length-zero", "listings state the length 0"),
            Self::HeadsLengthZero => ("heads-length-zero", "HEAD states the length 0"),
            Self::HeadsNoLength => ("heads-no-length", "HEAD states no length"),
            Self::HeadsHalfLength => ("heads-half-length", "HEAD states half the length"),
            Self::NoHead => ("no-head", "HEAD is answered 405"),
            Self::HeadDenied => ("head-denied", "HEAD of an object is answered 403"),
            Self::NoRanges => ("no-ranges", "a range is answered by the whole object"),
            Self::WrongRanges => ("wrong-ranges", "a range is answered by another range"),
            Self::ShortRanges => ("short-ranges", "a range is answered by its first 10,000 bytes"),
            Self::ShortBodies => ("short-bodies", "the first body of each object ends in the middle"),
            Self::CutBodies => ("cut-bodies", "every body ends after 10,000 bytes"),
            Self::Slow => ("slow", "bodies come in pieces, with pauses"),
            Self::Stalls => ("stalls", "the first body of each object stops in the middle"),
            Self::ChunkedBodies => ("chunked-bodies", "bodies come in chunks, without a length"),
            Self::FlakyKeys => ("flaky-keys", "the first request for each object is answered 503"),
            Self::LostAnswers => ("lost-answers", "the first write of each object is done, its answer lost"),
            Self::ErrorsInSuccess => {
                ("errors-in-success", "the first completion or copy of each object has an error inside a 200")
            }
            Self::NoChecksums => ("no-checksums", "writes with checksum headers are refused"),
            Self::NoMultipart => ("no-multipart", "uploads in parts are refused"),
            Self::NoDeleteMany => ("no-delete-many", "keys can only be deleted one by one"),
            Self::DeniesDeletes => ("denies-deletes", "nothing may be deleted"),
            Self::HostStyleOnly => ("host-style-only", "the bucket is accepted in the host name only"),
            Self::Redirects => ("redirects", "requests for objects are redirected once"),
            Self::ClockAhead => ("clock-ahead", "the server's clock is an hour ahead"),
            Self::ClockBehind => ("clock-behind", "the server's clock is an hour behind"),
        }
    }
}
