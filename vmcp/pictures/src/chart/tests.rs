//! Charts of all kinds. `VMCP_CHARTS=folder cargo test -p vmcp-pictures` writes them as PNG, to be looked at.

use super::*;
use crate::{png, svg};

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn row(x: Cell, y: f64, series: Option<&str>) -> Row {
    Row { x, y: Cell::Number(y), series: series.map(str::to_owned) }
}

fn named(kind: Kind, title: &str, x: &str, y: &str) -> Chart {
    let some = |text: &str| Some(text.to_owned());
    Chart { title: some(title), x_label: some(x), y_label: some(y), ..Chart::new(kind) }
}

/// Numbers that look random and are the same in each run.
fn noise(n: u32) -> f64 {
    let mixed =
        [15, 13, 16].iter().fold(n ^ 0x9e37_79b9, |n, shift| (n ^ (n >> shift)).wrapping_mul(0x2c1b_3c6d));
    f64::from(mixed >> 8) / f64::from(1 << 24)
}

/// Charts that one can look at.
fn gallery() -> Vec<(&'static str, Chart, Vec<Row>)> {
    let regions = ["North", "South", "East", "West"];
    let mut grouped = Vec::new();
    for (place, region) in regions.iter().enumerate() {
        for (number, year) in ["2024", "2025", "2026"].iter().enumerate() {
            grouped.push(row(text(region), 1.2e6 + 4e5 * noise((place * 3 + number) as u32), Some(year)));
        }
    }
    let day = |n: u32| text(&format!("2026-{:02}-{:02}", 1 + n / 28, 1 + n % 28));
    let lines = ["p50", "p95", "p99"].iter().zip([20.0, 80.0, 140.0]).flat_map(|(name, base)| {
        (0..168)
            .map(move |n| row(day(n), base + 30.0 * noise(n + base as u32) + f64::from(n) / 8.0, Some(name)))
    });
    let mut gaps: Vec<Row> =
        (0..30).map(|n| row(Cell::Number(f64::from(n)), (f64::from(n) / 4.0).sin(), None)).collect();
    for place in [7, 8, 9, 20] {
        gaps[place].y = Cell::Missing;
    }
    let cloud = |count: u32, spread: f64, name: &'static str| {
        (0..count).map(move |n| {
            let (x, y) = (noise(n) * 100.0, noise(n + 77_777));
            row(Cell::Number(x), x * 1.5 + spread * (y - 0.5), Some(name))
        })
    };
    let normal = (0..5000).map(|n| {
        let sum: f64 = (0..12).map(|k| noise(n * 12 + k)).sum();
        Row { x: Cell::Number(sum * 15.0), y: Cell::Missing, series: None }
    });
    let long = (0..14).map(|n| {
        row(text(&format!("github.com/organization/repository-number-{n}")), f64::from(14 - n) * 3.0, None)
    });
    let profit = ["Q1", "Q2", "Q3", "Q4"]
        .iter()
        .zip([-12_500.0, 8200.0, -3100.0, 21_400.0])
        .map(|(x, y)| row(text(x), y, None));
    let many = (0..312).map(|n| row(text(&format!("host-{n:03}")), 1000.0 * noise(n), None));
    let years =
        (1950..2026).map(|n: u32| row(Cell::Number(f64::from(n)), 2.5e9 + 7.5e7 * f64::from(n - 1950), None));
    let shares = [
        "Rust",
        "Python",
        "TypeScript",
        "Go",
        "Ελληνικά",
        "Русский",
        "YAML",
        "Shell",
        "Make",
        "SQL",
        "HTML",
        "CSS",
    ];
    let pie = shares.iter().enumerate().map(|(n, name)| row(text(name), 100.0 / (n + 1) as f64, None));
    let hours = (0..200).map(|n| {
        row(
            text(&format!("2026-11-{:02}T{:02}:{:02}:00Z", 26 + n / 144, n / 6 % 24, n % 6 * 10)),
            1e-3 * noise(n),
            None,
        )
    });
    vec![
        ("bar-grouped", named(Kind::Bar, "Revenue by region", "region", "revenue (EUR)"), grouped),
        ("line-dates", named(Kind::Line, "Latency of calls", "day", "milliseconds"), lines.collect()),
        ("line-gaps", named(Kind::Line, "A line with gaps", "n", "sin(n / 4)"), gaps),
        (
            "scatter",
            named(Kind::Scatter, "Two clouds", "size", "time"),
            cloud(300, 90.0, "warm").chain(cloud(300, 20.0, "cold")).collect(),
        ),
        (
            "scatter-many",
            named(Kind::Scatter, "100,000 rows", "x", "y"),
            cloud(100_000, 90.0, "all").collect(),
        ),
        ("histogram", named(Kind::Histogram, "Response sizes", "kilobytes", "responses"), normal.collect()),
        ("bar-long-labels", named(Kind::Bar, "Open issues", "repository", "issues"), long.collect()),
        ("bar-negative", named(Kind::Bar, "Profit and loss", "quarter", "EUR"), profit.collect()),
        ("bar-many", named(Kind::Bar, "Requests by host", "host", "requests"), many.collect()),
        ("bar-years", named(Kind::Bar, "Population", "year", "people"), years.collect()),
        ("pie", named(Kind::Pie, "Lines of code by language", "", ""), pie.collect()),
        (
            "line-hours",
            Chart {
                width: 500,
                height: 300,
                ..named(
                    Kind::Line,
                    "A small chart of hours with a rather long title that does not fit",
                    "",
                    "seconds",
                )
            },
            hours.collect(),
        ),
        ("bar-one", Chart::new(Kind::Bar), vec![row(text("only"), 42.0, None)]),
    ]
}

#[test]
fn every_chart_is_drawn_within_the_bounds_of_svg() {
    let folder = std::env::var_os("VMCP_CHARTS").map(std::path::PathBuf::from);
    for (name, chart, rows) in gallery() {
        let drawn = chart.draw(rows).unwrap_or_else(|error| panic!("{name}: {error}"));
        let png = svg::to_png(&drawn.svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((png.width, png.height), (chart.width, chart.height), "{name}");
        if name == "bar-one" {
            assert_eq!(png.bytes, png::draw(&drawn.svg).unwrap().bytes, "the wall changes nothing");
        }
        assert!(png.bytes.len() < 200_000, "{name}: {} bytes", png.bytes.len());
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.png")), png.bytes).unwrap();
        }
    }
}

fn drawn(kind: Kind, rows: Vec<Row>) -> Drawn {
    Chart::new(kind).draw(rows).unwrap()
}

fn refused(kind: Kind, rows: Vec<Row>) -> String {
    Chart::new(kind).draw(rows).unwrap_err().to_string()
}

#[test]
fn texts_are_escaped() {
    let chart = named(Kind::Bar, "<script>alert(1)</script>", "a & b", "\u{1}\"");
    let rows = vec![row(text("</text><x>"), 1.0, Some("<&>")), row(text("b"), 1.0, Some("\u{0}"))];
    let drawn = chart.draw(rows).unwrap();
    assert!(drawn.svg.contains("&lt;script&gt;") && drawn.svg.contains("a &amp; b"), "{}", drawn.svg);
    assert!(svg::to_png(&drawn.svg).is_ok(), "well-formed, and nothing active");
}

#[test]
fn bars_of_one_category_are_added_and_texts_keep_their_order() {
    let rows = vec![row(text("b"), 1.0, None), row(text("a"), 2.0, None), row(text("b"), 4.0, None)];
    let bars = |rows| drawn(Kind::Bar, rows);
    let drawn = bars(rows);
    assert!(drawn.svg.contains("<title>b: 5</title>") && drawn.svg.contains("<title>a: 2</title>"));
    assert!(drawn.svg.find("b: 5") < drawn.svg.find("a: 2"));
    let sorted = bars([30.0, 4.0].map(|x| row(Cell::Number(x), 1.0, None)).into());
    assert!(sorted.svg.find("4: 1") < sorted.svg.find("30: 1"), "numbers rise");
    let alike =
        bars([Cell::Number(12_345.0), Cell::Number(12_346.0), text("x")].map(|x| row(x, 1.0, None)).into());
    assert!(
        alike.svg.contains("12345: 1") && alike.svg.contains("12346: 1"),
        "each number is its own category"
    );
}

#[test]
fn rows_that_are_left_out_are_told() {
    let mut rows: Vec<Row> = (0..60).map(|n| row(text(&format!("c{n}")), f64::from(n), None)).collect();
    rows[59].y = Cell::Number(f64::NAN);
    let many = drawn(Kind::Bar, rows);
    assert_eq!(many.notes, ["1 of 60 rows without y left out", "the 50 largest of 60 categories"]);
    assert!(many.svg.contains("the 50 largest of 60 categories"), "the chart says so itself");
    assert!(many.svg.contains("c58: 58") && !many.svg.contains("c3: 3"));
    assert!(drawn(Kind::Bar, vec![row(text("a"), 1.0, None)]).notes.is_empty());
}

#[test]
fn bad_rows_are_refused_by_argument_and_limit() {
    let missing = Row { x: text("a"), y: Cell::Missing, series: None };
    for kind in [Kind::Bar, Kind::Line, Kind::Scatter, Kind::Histogram, Kind::Pie] {
        assert!(refused(kind, Vec::new()).starts_with("rows: no row has a value"), "{kind:?}");
    }
    assert!(refused(Kind::Bar, vec![missing.clone()]).starts_with("rows: no row"));
    let nowhere = vec![row(Cell::Number(f64::INFINITY), 1.0, None), row(Cell::Number(2.0), 3.0, None)];
    assert_eq!(drawn(Kind::Line, nowhere).notes, ["1 of 2 rows without x left out"]);
    let word = Row { x: text("a"), y: text("many"), series: None };
    assert_eq!(
        refused(Kind::Line, vec![Row { x: Cell::Missing, ..missing }, word]),
        "y: row 1 has \"many\", which is no number"
    );
    assert!(refused(Kind::Line, vec![row(text("a"), 1e200, None)]).contains("beyond 1e100"));
    assert!(refused(Kind::Pie, vec![row(text("a"), -1.0, None)]).contains("negative"));
    let many = vec![row(Cell::Number(1.0), 1.0, None); MAX_ROWS + 1];
    assert!(refused(Kind::Line, many).contains("200001 rows; the limit is 200000"));
    let series = (0..=MAX_SERIES).map(|n| row(Cell::Number(1.0), 1.0, Some(&n.to_string())));
    assert!(refused(Kind::Line, series.collect()).contains("more than 12 series"));
    let small = Chart { width: 10, ..Chart::new(Kind::Bar) };
    assert_eq!(small.draw(Vec::new()).unwrap_err().to_string(), "width must be from 200 to 1600 pixels");
    let bins = Chart { bins: Some(0), ..Chart::new(Kind::Histogram) };
    assert_eq!(bins.draw(Vec::new()).unwrap_err().to_string(), "bins must be from 1 to 100");
}

#[test]
fn any_numbers_give_a_picture() {
    let values = [0.0, -0.0, 1e100, -1e100, 1e-320, f64::NAN, f64::INFINITY, 1.0, 1.0 + 1e-15];
    for kind in [Kind::Bar, Kind::Line, Kind::Scatter, Kind::Histogram] {
        for one in values {
            for other in values {
                let rows = vec![
                    row(Cell::Number(one), other, None),
                    row(Cell::Number(other), one, None),
                    row(Cell::Number(3.0), 3.0, None),
                ];
                let drawn = drawn(kind, rows);
                assert!(
                    !drawn.svg.contains("NaN") && !drawn.svg.contains("inf"),
                    "{kind:?} {one} {other}: {}",
                    drawn.svg
                );
            }
        }
    }
}

#[test]
fn large_tables_stay_small_pictures() {
    for kind in [Kind::Line, Kind::Scatter, Kind::Bar, Kind::Histogram] {
        let rows = (0..MAX_ROWS as u32).map(|n| row(Cell::Number(noise(n) * 1e4), noise(n + 5), None));
        let drawn = drawn(kind, rows.collect());
        assert!(drawn.svg.len() < 300_000, "{kind:?}: {} bytes", drawn.svg.len());
    }
}
