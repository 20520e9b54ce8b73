use super::*;

fn example() -> Example {
    Example::compute()
}

fn how(mark: char) -> String {
    let example = example();
    example.pointed_out.iter().find(|point| point.mark == mark).unwrap().how.clone()
}

#[track_caller]
fn says(mark: char, figures: &[&str]) {
    let how = how(mark);
    for figure in figures {
        assert!(how.contains(figure), "({mark}) lacks `{figure}`: {how}");
    }
}

#[test]
fn every_figure_of_the_report_is_reproduced() {
    let example = example();
    assert_eq!(example.reproduced.len(), 8 + 5 + 7 + 3 + 10 + 2);
    assert_eq!(example.at_us_price.len(), 8);
    for figure in example.reproduced.iter().chain(&example.at_us_price) {
        assert!(figure.fits(), "{figure:?}");
    }
}

#[test]
fn a_figure_that_differs_by_more_than_one_unit_does_not_fit() {
    let figure = |report: f64, computed: f64, digits: usize| Figure {
        what: String::new(),
        report,
        computed,
        digits,
        how: String::new(),
    };
    assert!(figure(19.74, 19.749, 2).fits());
    assert!(!figure(19.74, 19.756, 2).fits());
    assert!(figure(495.0, 494.2, 0).fits());
    assert!(!figure(495.0, 492.0, 0).fits());
}

#[test]
fn the_printed_figures_are_the_reports() {
    let text = example().text().split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "EC2, EFS, 500,000 sequences 2.50 2.50 1,490 s at 6.0468 $/h",
        "EC2, FSx with four jobs, 500,000 sequences 63.72 63.72 37,935 s at 6.0468 $/h",
        "throughput of a job on EFS 10.93 10.93 254.3 GiB at 0.043 $",
        "a job on EFS, 500,000 sequences 13.43 13.43 2.50 + 10.93",
        "EFS, a month 495 495",
        "FSx, a month 2,080 2,080 168 + 0 + 1,912",
        "times slower 25 25 37,935 / 1,490",
        "times a month 4.2 4.2",
        "times with waiting 17 17 588.72 / 34.43",
        "hours waited, EFS 0.42 0.42 1,507 s, rounded",
        "job and waiting, EFS 34.43 34.43 13.43 + 21",
        "job and waiting, FSx 588.72 588.72 63.72 + 525",
        "waiting, EFS, exact seconds 20.69 20.69 1,490 s at 50 $/h",
        "job and waiting, EFS, exact 34.12 34.12 13.43 + 20.69",
        "waiting, FSx, exact seconds 526.88 526.88",
        "job and waiting, FSx, exact 590.60 590.60",
        "the test days 459.82 459.82",
    ] {
        assert!(text.contains(line), "lacks `{line}`:\n{text}");
    }
    assert!(!text.contains("DIFFERS"), "{text}");
}

#[test]
fn statements_that_do_not_hold_together_are_pointed_out_with_their_arithmetic() {
    assert_eq!(example().pointed_out.iter().map(|point| point.mark).collect::<String>(), "abcdefghijk");
    says('a', &["37,935 s with four jobs", "1,290 to 2,455 s", "233 to 292 $", "495 on EFS"]);
    says(
        'b',
        &["60 MB/s (58.6 for 1,200 GiB)", "take 76 minutes", "took 31 and 55", "10.5 hours", "8.3 times"],
    );
    says('c', &["10.93 $", "~17", "35 each", "1.07 to 1.6", "11.70 to 17.50 $"]);
    says('d', &["8 to 29 in the text", "8.7 to 35.0 in the table"]);
    says('e', &["1,200 MB/s\" is 1000 MB/s/TiB", "240 MB/s, 5 times less"]);
    says('f', &["273.0 GB in 200 s is 1,302 MiB/s", "within 1,500", "521 s at the older 500"]);
    says('g', &["0.14 $, there 0.14", "6.0468 $/h, there 6.048"]);
    says('h', &["120 jobs a month are 1,704 $ on EFS and 7,814 on FSx", "from 7.0 jobs a month"]);
    says('i', &["238 s less 136", "leave 102 s for 273 GB: 2.7 GB/s", "bursts to 1.5"]);
    says('j', &["= 179 $, not 371", "2,099 $, 192 jobs or 6.4 a day"]);
    says('k', &["234 to 240 MB/s", "1,138 to 1,165 s for 273 GB", "7.9 GiB, 3 %", "254 MB/s"]);
}

#[test]
fn the_daily_job_alone_may_flip_the_recommendation() {
    let Alone { loading, compute, seconds, month, efs_month, with_waiting, efs_with_waiting } =
        example().alone;
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 0.5, "{value}, not {expected}");
    near(loading[0], 1_137.7);
    near(loading[1], 1_165.0);
    near(compute, 1_290.0);
    near(seconds[0], 1_290.0);
    near(seconds[1], 2_455.0);
    near(month[0], 233.0);
    near(month[1], 291.7);
    near(efs_month, 494.7);
    assert!(with_waiting[0] < efs_with_waiting && efs_with_waiting < with_waiting[1], "too close to call");
    let text = example().text();
    assert!(
        text.contains("a month: 233 to 292 $ against 495 $ on EFS: the recommendation may flip"),
        "{text}"
    );
    assert!(text.contains("too close to call"), "{text}");
}

#[test]
fn what_might_explain_the_long_times_is_called_unproven() {
    let text = example().what_if.join("\n");
    for part in [
        "each of 15 batches",
        "8.1 passes",
        "54 % of all",
        "66.7 million pages",
        "0.55 ms each",
        "Both are unproven",
    ] {
        assert!(text.contains(part), "lacks `{part}`: {text}");
    }
}

#[test]
fn the_text_is_at_most_a_hundred_columns_wide() {
    for line in example().text().lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
        assert_eq!(line.trim_end(), line);
    }
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = include_str!("../../../../docs/advise.md");
    let text = example().text();
    assert!(page.contains(&format!("```text\n{text}```\n")), "docs/advise.md should show:\n{text}");
}
