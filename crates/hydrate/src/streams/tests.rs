use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 64 * MIB;

/// Reads `from..to` in steps of `step`, all having to wait; returns what was fetched ahead.
fn go_on(streams: &mut Streams, from: u64, to: u64, step: u64) -> Vec<Range<u64>> {
    let mut ahead = Vec::new();
    let mut at = from;
    while at < to {
        let end = (at + step).min(to);
        ahead.extend(streams.note(at..end, Found::Missing).map(|ahead| ahead.range));
        at = end;
    }
    ahead
}

#[test]
fn the_first_read_fetches_nothing_more_and_the_second_opens_a_window() {
    let mut streams = Streams::new(100 * MIB, WINDOW);
    assert_eq!(streams.note(0..4096, Found::Missing), None);
    let ahead = streams.note(4096..8192, Found::All).unwrap();
    assert_eq!(ahead.range, 8192..FIRST);
    assert_eq!(ahead.reader, 8192);
}

#[test]
fn a_window_grows_while_readers_wait_and_then_stays() {
    let mut streams = Streams::new(1 << 40, WINDOW);
    go_on(&mut streams, 0, 10 * BLOCK, BLOCK);
    assert_eq!(streams.streams[0].window, 10 * BLOCK * GROWTH, "no more than in proportion to what was read");
    go_on(&mut streams, 10 * BLOCK, 256 * BLOCK, BLOCK);
    let reached = streams.streams[0].ahead;
    assert_eq!(streams.streams[0].window, WINDOW);
    let ahead = streams.note(256 * BLOCK..300 * BLOCK, Found::All).unwrap();
    assert_eq!(ahead.range.start, reached);
    assert_eq!(ahead.range.end, 300 * BLOCK + WINDOW);
}

#[test]
fn nearby_a_window_is_cut_into_fewer_requests() {
    let segment = |distance| {
        let mut streams = Streams::new(1 << 40, WINDOW);
        streams.adapt(WINDOW, distance);
        go_on(&mut streams, 0, WINDOW, MIB);
        streams.note(WINDOW..2 * WINDOW, Found::All).unwrap().segment
    };
    assert_eq!((segment(Distance::Far), segment(Distance::Near)), (WINDOW / 16, WINDOW / 4));
}

#[test]
fn reads_that_overtake_each_other_stay_one_stream() {
    let mut streams = Streams::new(1 << 40, WINDOW);
    go_on(&mut streams, 0, 4 * BLOCK, BLOCK);
    for block in [5, 4, 7, 6, 9, 8_u64] {
        streams.note(block * BLOCK..(block + 1) * BLOCK, Found::All);
    }
    assert_eq!(streams.streams.len(), 1);
}

#[test]
fn the_first_reads_may_overtake_each_other_too() {
    let mut streams = Streams::new(1 << 40, WINDOW);
    for block in [0, 2, 1, 3, 4_u64] {
        streams.note(block * BLOCK..(block + 1) * BLOCK, Found::Missing);
    }
    assert!(streams.streams.iter().any(|stream| stream.end == 5 * BLOCK && stream.window > 0));
    assert!(streams.streams.len() <= 2);
}

proptest! {
    #[test]
    fn what_one_reader_gets_ahead_is_gapless_unrepeated_and_within_the_window(
        size in 1..200 * MIB, from in 0..100 * MIB, steps in proptest::collection::vec((1..3 * MIB, any::<bool>()), 1..200),
    ) {
        let mut streams = Streams::new(size, WINDOW);
        let mut at = from.min(size - 1);
        let mut reached = None;
        for (step, missing) in steps {
            let end = (at + step).min(size);
            if at == end { break }
            let found = if missing { Found::Missing } else { Found::All };
            if let Some(ahead) = streams.note(at..end, found) {
                prop_assert_eq!(ahead.range.start, reached.unwrap_or(end).max(end));
                prop_assert!(ahead.range.end <= size && ahead.range.end <= end + WINDOW);
                prop_assert!(ahead.range.end == size || ahead.range.end % BLOCK == 0);
                prop_assert!(ahead.segment % BLOCK == 0 && ahead.segment <= cut(Distance::Far).1);
                reached = Some(ahead.range.end);
            }
            prop_assert_eq!(streams.streams.len(), 1);
            at = end;
        }
    }

    #[test]
    fn several_readers_each_get_what_they_would_alone(turns in proptest::collection::vec(0..MOST, 1..400)) {
        // Far enough apart that none runs into another.
        let apart = 1_u64 << 32;
        let mut together = Streams::new(1 << 40, WINDOW);
        let mut alone: Vec<_> = (0..MOST).map(|_| Streams::new(1 << 40, WINDOW)).collect();
        let mut at: Vec<_> = (0..MOST as u64).map(|reader| reader * apart).collect();
        for reader in turns {
            let read = at[reader]..at[reader] + BLOCK;
            at[reader] = read.end;
            prop_assert_eq!(together.note(read.clone(), Found::Missing), alone[reader].note(read, Found::Missing));
        }
    }

    #[test]
    fn who_jumps_about_gets_nothing_ahead(blocks in proptest::collection::hash_set(0..100_000_u64, 1..300)) {
        let mut streams = Streams::new(1 << 40, WINDOW);
        for block in blocks {
            // Every second block at most: none begins where another ends.
            let start = block * 2 * BLOCK;
            prop_assert_eq!(streams.note(start..start + 4096, Found::Missing), None);
            prop_assert!(streams.streams.len() <= MOST);
        }
    }
}
