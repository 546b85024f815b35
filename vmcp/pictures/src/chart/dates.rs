//! Dates: read from ISO 8601, and nice ticks of an axis from seconds to centuries.

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDate, NaiveDateTime, NaiveTime};

/// A moment, in UTC or in local time that all rows share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    /// Seconds since the begin of 1970.
    pub(super) seconds: f64,
}

/// Forms of a date with a time and without an offset.
const FORMS: [&str; 4] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];

impl Moment {
    /// Reads `2026-11`, `2026-11-27`, `2026-11-27T09:30[:15][Z|+01:00]`, or with a space for `T`.
    pub(super) fn parse(text: &str) -> Option<Moment> {
        let text = text.trim();
        // Cheap for other texts: all dates begin with a year.
        let is_year = text.len() >= 7 && text.bytes().take(4).all(|byte| byte.is_ascii_digit());
        if !is_year || text.as_bytes().get(4) != Some(&b'-') {
            return None;
        }
        let of_date = |date: NaiveDate| date.and_time(NaiveTime::MIN);
        let month = || NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d").ok();
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().or_else(month).map(of_date);
        let moment = date
            .or_else(|| FORMS.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok()))
            .or_else(|| Some(DateTime::parse_from_rfc3339(text).ok()?.naive_utc()))?;
        Some(Moment::of(moment))
    }

    fn of(moment: NaiveDateTime) -> Moment {
        Moment { seconds: moment.and_utc().timestamp_micros() as f64 / 1e6 }
    }

    fn naive(self) -> NaiveDateTime {
        DateTime::from_timestamp_micros((self.seconds * 1e6) as i64).unwrap_or_default().naive_utc()
    }

    /// Returns the date, with its time if asked for.
    pub(super) fn text(self, with_time: bool) -> String {
        self.naive().format(if with_time { "%Y-%m-%d %H:%M" } else { "%Y-%m-%d" }).to_string()
    }
}

/// Distance of two ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Seconds(u32),
    Days(u32),
    Months(u32),
}

use Step::{Days as D, Months as M, Seconds as S};

/// Steps from short to long; longer ones are multiples of a thousand years.
const STEPS: [Step; 31] = [
    S(1),
    S(2),
    S(5),
    S(15),
    S(30),
    S(60),
    S(120),
    S(300),
    S(900),
    S(1800),
    S(3600),
    S(7200),
    S(10_800),
    S(21_600),
    S(43_200),
    D(1),
    D(2),
    D(7),
    D(14),
    M(1),
    M(2),
    M(3),
    M(6),
    M(12),
    M(24),
    M(60),
    M(120),
    M(240),
    M(600),
    M(1200),
    M(6000),
];

impl Step {
    /// About its length.
    fn seconds(self) -> f64 {
        match self {
            S(seconds) => f64::from(seconds),
            D(days) => f64::from(days) * 86_400.0,
            M(months) => f64::from(months) * 2_629_746.0,
        }
    }

    /// Returns the last tick that is not after a moment.
    fn floor(self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        let date = at.date();
        match self {
            S(seconds) => {
                let whole = at.and_utc().timestamp();
                let floored = whole - whole.rem_euclid(i64::from(seconds));
                Some(DateTime::from_timestamp(floored, 0)?.naive_utc())
            }
            D(days) => {
                let past = date.num_days_from_ce().rem_euclid(i32::try_from(days).ok()?);
                Some(date.checked_sub_days(Days::new(u64::try_from(past).ok()?))?.and_time(NaiveTime::MIN))
            }
            M(months) => {
                let months = i32::try_from(months).ok()?;
                let number = date.year() * 12 + i32::try_from(date.month0()).ok()?;
                let number = number - number.rem_euclid(months);
                let month = u32::try_from(number.rem_euclid(12)).ok()? + 1;
                Some(NaiveDate::from_ymd_opt(number.div_euclid(12), month, 1)?.and_time(NaiveTime::MIN))
            }
        }
    }

    fn next(self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        match self {
            S(seconds) => at.checked_add_signed(chrono::TimeDelta::seconds(i64::from(seconds))),
            D(days) => at.checked_add_days(Days::new(u64::from(days))),
            M(months) => at.checked_add_months(Months::new(months)),
        }
    }

    /// Returns the text of a tick; the first one, and a day or year that begins, say more.
    fn text(self, at: NaiveDateTime, is_first: bool) -> String {
        let is_midnight = at.time() == NaiveTime::MIN;
        let form = match self {
            S(seconds) if seconds < 60 && !is_first => "%H:%M:%S",
            S(_) if is_first => "%b %-d %H:%M",
            S(_) if is_midnight => "%b %-d",
            S(_) => "%H:%M",
            D(_) if is_first || at.date().ordinal() <= 14 => "%b %-d, %Y",
            D(_) => "%b %-d",
            M(months) if months >= 12 => "%Y",
            M(_) => "%b %Y",
        };
        at.format(form).to_string()
    }
}

/// Returns the ticks between two moments, about `wanted`, with their texts.
pub(super) fn ticks(least: f64, most: f64, wanted: usize) -> Vec<(f64, String)> {
    let rough = (most - least) / wanted.max(2) as f64;
    let step = STEPS.into_iter().find(|step| step.seconds() >= rough).unwrap_or(M(12_000));
    let mut at = step.floor(Moment { seconds: least }.naive());
    let mut found = Vec::new();
    while let Some(tick) = at {
        let seconds = Moment::of(tick).seconds;
        if seconds > most || found.len() > 50 {
            break;
        }
        if seconds >= least {
            found.push((seconds, step.text(tick, found.is_empty())));
        }
        at = step.next(tick);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_nothing_else() {
        for (text, seconds) in [
            ("1970-01-02", 86_400.0),
            ("1970-02", 2_678_400.0),
            ("1970-01-01T00:01:30.5", 90.5),
            ("1970-01-01 01:00", 3600.0),
            ("1970-01-01T01:00:00+01:00", 0.0),
        ] {
            assert_eq!(Moment::parse(text), Some(Moment { seconds }), "{text}");
        }
        for text in
            ["", "1970", "1970-13-01", "19700101", "2024-0é", "north-east", "1970-01-01T25:00", "2024-x"]
        {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ticks_stand_at_round_moments() {
        let of = |from: &str, to: &str| -> Vec<String> {
            let seconds = |text: &str| Moment::parse(text).unwrap().seconds;
            ticks(seconds(from), seconds(to), 6).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(
            of("2026-01-01", "2026-06-30"),
            ["Jan 2026", "Feb 2026", "Mar 2026", "Apr 2026", "May 2026", "Jun 2026"]
        );
        assert_eq!(
            of("2026-03-05", "2026-03-10"),
            ["Mar 5, 2026", "Mar 6", "Mar 7", "Mar 8", "Mar 9", "Mar 10"]
        );
        assert_eq!(of("2026-03-05 21:00", "2026-03-06 03:00").first().unwrap(), "Mar 5 21:00");
        assert_eq!(of("1500-01-01", "2020-01-01"), ["1500", "1600", "1700", "1800", "1900", "2000"]);
        assert!(ticks(-6e10, 2.5e11, 6).len() <= 51);
        assert_eq!(ticks(5.0, 5.0, 6).len(), 1);
    }
}
