//! Tests of sorting: the output is in order, with any amount of memory.

use firstbyte_listing::Time;
use firstbyte_location::EntryKind;
use proptest::prelude::*;

use super::*;
use crate::render::rows::{ColumnType, RowColumn, record};

const SCHEMA: Schema = &[
    RowColumn { name: "name", holds: ColumnType::Name, width: None },
    RowColumn { name: "kind", holds: ColumnType::Kind, width: None },
    RowColumn { name: "size", holds: ColumnType::Number, width: None },
    RowColumn { name: "modified", holds: ColumnType::Time, width: None },
];

type Row = (Vec<u8>, Option<u64>, Option<(i64, u32)>);

fn sorted(rows: &[Row], sort: Sort, direction: SortDirection, room: usize) -> Vec<Row> {
    let mut sorter = Sorter::new(SCHEMA, sort, direction, room);
    for (name, size, time) in rows {
        let time = time.map(|(seconds, nanoseconds)| Time { seconds, nanoseconds });
        let mut page = Vec::new();
        let row =
            [Value::Name(b"", name), Value::Kind(EntryKind::File), Value::Number(*size), Value::Time(time)];
        record::push(&row, &mut page);
        sorter.add(&page).unwrap();
    }
    let mut out = Vec::new();
    let each = |record: &[u8]| {
        let row: Vec<Value<'_>> = values(SCHEMA, record).collect();
        let [Value::Name(_, name), _, Value::Number(size), Value::Time(time)] = row[..] else {
            panic!("{row:?}")
        };
        out.push((name.to_vec(), size, time.map(|time| (time.seconds, time.nanoseconds))));
        Ok(())
    };
    sorter.finish(each).unwrap();
    out
}

proptest! {
    #[test]
    fn rows_come_in_order_whether_they_fit_or_not(
        rows in proptest::collection::vec(
            (
                proptest::collection::vec(any::<u8>(), 0..12),
                proptest::option::of(0..5_u64),
                proptest::option::of((-3..3_i64, 0..3_u32)),
            ),
            0..150,
        ),
        room in 1_usize..20_000,
    ) {
        for sort in [Sort::Name, Sort::Size, Sort::Mtime] {
            let mut expected = rows.clone();
            expected.sort_by_key(|(name, size, time)| {
                let size = std::cmp::Reverse(size.unwrap_or(0));
                let time = std::cmp::Reverse(time.unwrap_or((i64::MIN, 0)));
                match sort {
                    Sort::Name => (std::cmp::Reverse(0), std::cmp::Reverse((0, 0)), name.clone()),
                    Sort::Size => (size, std::cmp::Reverse((0, 0)), name.clone()),
                    Sort::Mtime => (std::cmp::Reverse(0), time, name.clone()),
                }
            });
            let keys = |rows: Vec<Row>| rows.into_iter().map(|(name, size, time)| match sort {
                Sort::Name => (name, None, None),
                Sort::Size => (name, Some(size.unwrap_or(0)), None),
                Sort::Mtime => (name, None, time),
            }).collect::<Vec<_>>();
            prop_assert_eq!(keys(sorted(&rows, sort, SortDirection::Usual, room)), keys(expected.clone()));
            expected.reverse();
            prop_assert_eq!(keys(sorted(&rows, sort, SortDirection::Reversed, room)), keys(expected));
        }
    }
}

#[test]
fn more_runs_than_are_merged_at_once_are_merged_in_turns() {
    let rows: Vec<Row> =
        (0..5_000_u64).map(|n| (format!("{:05}", n * 7_919 % 5_000).into(), None, None)).collect();
    let names: Vec<Vec<u8>> = (0..5_000).map(|n| format!("{n:05}").into()).collect();
    let found = sorted(&rows, Sort::Name, SortDirection::Usual, 1_000);
    assert!(found.into_iter().map(|(name, ..)| name).eq(names));
}
