use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 64 * MIB;

/// Reads `from..to` in steps of `step` bytes, and waits at each step. Returns the ranges that were
/// fetched ahead.
fn read_sequentially(read_ahead: &mut ReadAhead, from: u64, to: u64, step: u64) -> Vec<Range<u64>> {
    let mut ahead = Vec::new();
    let mut at = from;
    while at < to {
        let end = (at + step).min(to);
        ahead.extend(read_ahead.note(at..end, FoundBytes::Missing).map(|ahead| ahead.range));
        at = end;
    }
    ahead
}

#[test]
fn the_first_read_fetches_nothing_more_and_the_second_opens_a_window() {
    let mut read_ahead = ReadAhead::new(100 * MIB, WINDOW);
    assert_eq!(read_ahead.note(0..4096, FoundBytes::Missing), None);
    let ahead = read_ahead.note(4096..8192, FoundBytes::All).unwrap();
    assert_eq!(ahead.range, 8192..FIRST_WINDOW);
    assert_eq!(ahead.reader, 8192);
}

#[test]
fn a_long_read_of_the_beginning_opens_a_window_at_once() {
    let first = |range: Range<u64>, found| ReadAhead::new(100 * MIB, WINDOW).note(range, found);
    let ahead = first(0..SEGMENT, FoundBytes::Missing).unwrap();
    assert_eq!(ahead.range, SEGMENT..SEGMENT + WINDOW_GROWTH * SEGMENT / BLOCK * BLOCK);
    assert_eq!(first(0..SEGMENT - 1, FoundBytes::Missing), None);
    assert_eq!(first(MIB..MIB + SEGMENT, FoundBytes::Missing), None);
    assert_eq!(first(0..SEGMENT, FoundBytes::All), None, "what is present makes no reader wait");
}

#[test]
fn a_reader_is_random_after_many_reads_that_continue_no_other() {
    let mut read_ahead = ReadAhead::new(1 << 40, WINDOW);
    let read = |at: u64| at * 10 * MIB..at * 10 * MIB + BLOCK;
    for at in 0..u64::from(RANDOM_AFTER_READS) {
        assert!(!read_ahead.is_random(&read(at)));
        read_ahead.note(read(at), FoundBytes::Missing);
    }
    assert!(read_ahead.is_random(&read(100)));
    let next = read(3).end..read(3).end + BLOCK;
    assert!(!read_ahead.is_random(&next), "it continues one");
    read_ahead.note(next, FoundBytes::Missing);
    assert!(!read_ahead.is_random(&read(100)), "it has shown that it does");
}

#[test]
fn requests_to_a_far_server_stay_short_in_a_wide_window() {
    let mut read_ahead = ReadAhead::new(1 << 40, 16 * WINDOW);
    read_sequentially(&mut read_ahead, 0, 8 * WINDOW, MIB);
    let ahead = read_ahead.note(8 * WINDOW..9 * WINDOW, FoundBytes::All).unwrap();
    assert_eq!(ahead.segment, SHORT_REQUEST_LIMIT);
}

#[test]
fn a_window_grows_while_readers_wait_and_then_stays() {
    let mut read_ahead = ReadAhead::new(1 << 40, WINDOW);
    read_sequentially(&mut read_ahead, 0, 10 * BLOCK, BLOCK);
    assert_eq!(
        read_ahead.sequences[0].window,
        10 * BLOCK * WINDOW_GROWTH,
        "no more than in proportion to what was read"
    );
    read_sequentially(&mut read_ahead, 10 * BLOCK, 256 * BLOCK, BLOCK);
    let reached = read_ahead.sequences[0].fetched_end;
    assert_eq!(read_ahead.sequences[0].window, WINDOW);
    let ahead = read_ahead.note(256 * BLOCK..300 * BLOCK, FoundBytes::All).unwrap();
    assert_eq!(ahead.range.start, reached);
    assert_eq!(ahead.range.end, 300 * BLOCK + WINDOW);
}

#[test]
fn a_near_server_gets_fewer_requests_for_a_window() {
    let segment = |server| {
        let mut read_ahead = ReadAhead::new(1 << 40, WINDOW);
        read_ahead.adapt(WINDOW, server, None);
        read_sequentially(&mut read_ahead, 0, WINDOW, MIB);
        read_ahead.note(WINDOW..2 * WINDOW, FoundBytes::All).unwrap().segment
    };
    assert_eq!((segment(Proximity::Far), segment(Proximity::Near)), (WINDOW / 16, WINDOW / 4));
}

#[test]
fn a_far_server_gets_more_and_shorter_requests_for_a_narrow_window() {
    let segment = |server| {
        let mut read_ahead = ReadAhead::new(1 << 40, 16 * MIB);
        read_ahead.adapt(16 * MIB, server, None);
        read_sequentially(&mut read_ahead, 0, WINDOW, MIB);
        read_ahead.note(WINDOW..2 * WINDOW, FoundBytes::All).unwrap().segment
    };
    assert_eq!((segment(Proximity::Far), segment(Proximity::Near)), (MIB / 2, MIB));
}

#[test]
fn requests_over_slow_connections_take_a_quarter_of_a_second_each() {
    let segment = |rate| {
        let mut read_ahead = ReadAhead::new(1 << 40, WINDOW);
        read_ahead.adapt(WINDOW, Proximity::Far, Some(rate));
        read_sequentially(&mut read_ahead, 0, WINDOW, MIB);
        read_ahead.note(WINDOW..2 * WINDOW, FoundBytes::All).unwrap().segment
    };
    assert_eq!([1, 4 * MIB, u64::MAX].map(segment), [MIB / 2, MIB, WINDOW / 16]);
}

#[test]
fn reads_out_of_order_stay_one_sequence() {
    let mut read_ahead = ReadAhead::new(1 << 40, WINDOW);
    read_sequentially(&mut read_ahead, 0, 4 * BLOCK, BLOCK);
    for block in [5, 4, 7, 6, 9, 8_u64] {
        read_ahead.note(block * BLOCK..(block + 1) * BLOCK, FoundBytes::All);
    }
    assert_eq!(read_ahead.sequences.len(), 1);
}

#[test]
fn the_first_reads_may_be_out_of_order_too() {
    let mut read_ahead = ReadAhead::new(1 << 40, WINDOW);
    for block in [0, 2, 1, 3, 4_u64] {
        read_ahead.note(block * BLOCK..(block + 1) * BLOCK, FoundBytes::Missing);
    }
    assert!(read_ahead.sequences.iter().any(|sequence| sequence.end == 5 * BLOCK && sequence.window > 0));
    assert!(read_ahead.sequences.len() <= 2);
}

proptest! {
    #[test]
    fn fetches_ahead_of_one_reader_are_contiguous_disjoint_and_within_the_window(
        size in 1..200 * MIB, from in 0..100 * MIB, steps in proptest::collection::vec((1..3 * MIB, any::<bool>()), 1..200),
    ) {
        let mut read_ahead = ReadAhead::new(size, WINDOW);
        let mut at = from.min(size - 1);
        let mut reached = None;
        for (step, missing) in steps {
            let end = (at + step).min(size);
            if at == end { break }
            let found = if missing { FoundBytes::Missing } else { FoundBytes::All };
            if let Some(ahead) = read_ahead.note(at..end, found) {
                prop_assert_eq!(ahead.range.start, reached.unwrap_or(end).max(end));
                prop_assert!(ahead.range.end <= size && ahead.range.end <= end + WINDOW);
                prop_assert!(ahead.range.end == size || ahead.range.end % BLOCK == 0);
                prop_assert!(ahead.segment % BLOCK == 0 && ahead.segment <= WINDOW / requests(Proximity::Far, true));
                reached = Some(ahead.range.end);
            }
            prop_assert_eq!(read_ahead.sequences.len(), 1);
            at = end;
        }
    }

    #[test]
    fn each_of_several_readers_gets_the_same_as_alone(turns in proptest::collection::vec(0..MAX_SEQUENCES, 1..400)) {
        // The readers are so far apart that no two sequences meet.
        let apart = 1_u64 << 32;
        let mut together = ReadAhead::new(1 << 40, WINDOW);
        let mut alone: Vec<_> = (0..MAX_SEQUENCES).map(|_| ReadAhead::new(1 << 40, WINDOW)).collect();
        let mut at: Vec<_> = (0..MAX_SEQUENCES as u64).map(|reader| reader * apart).collect();
        for reader in turns {
            let read = at[reader]..at[reader] + BLOCK;
            at[reader] = read.end;
            prop_assert_eq!(together.note(read.clone(), FoundBytes::Missing), alone[reader].note(read, FoundBytes::Missing));
        }
    }

    #[test]
    fn a_random_reader_gets_nothing_ahead(blocks in proptest::collection::hash_set(0..100_000_u64, 1..300)) {
        let mut read_ahead = ReadAhead::new(1 << 40, WINDOW);
        for block in blocks {
            // No read begins where another ends, because only every second block is read.
            let start = block * 2 * BLOCK;
            prop_assert_eq!(read_ahead.note(start..start + 4096, FoundBytes::Missing), None);
            prop_assert!(read_ahead.sequences.len() <= MAX_SEQUENCES);
        }
    }
}
