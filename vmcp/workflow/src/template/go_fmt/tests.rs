use serde_json::json;

use super::*;
use crate::template::data;

fn values(json: &serde_json::Value) -> Vec<Value> {
    json.as_array().unwrap().iter().map(data::from_json).collect()
}

/// Expected texts are those of Go 1.26, of which a whole number is an `int` and another number a `float64`.
#[test]
fn formats_are_those_of_go() {
    let list = json!([1, "two", null, 2.5]);
    for (format, args, expected) in [
        (
            "%v %v %v %v",
            json!([1_000_000.0, 100_000.0, 123_456_789.5, 0.000_01]),
            "1e+06 100000 1.234567895e+08 1e-05",
        ),
        ("%v|%d", json!([list, list]), "[1 two <nil> 2.5]|[1 %!d(string=two) <nil> %!d(float64=2.5)]"),
        (
            "%q|%s",
            json!([list, { "a": 1, "b": null }]),
            "['\\x01' \"two\" <nil> %!q(float64=2.5)]|map[a:%!s(int=1) b:<nil>]",
        ),
        (
            "%#v %#v %+v",
            json!([list, { "a": 1, "b": null }, 2.5]),
            "[]interface {}{1, \"two\", interface {}(nil), 2.5} \
             map[string]interface {}{\"a\":1, \"b\":interface {}(nil)} 2.5",
        ),
        ("%[2]d %[1]d %d", json!([1, 2]), "2 1 2"),
        ("%[3]d %[x]d %[]d %[1", json!([1, 2]), "%!d(BADINDEX) %!d(BADINDEX) %!d(BADINDEX) %!(NOVERB)"),
        ("%*d|%-*d|%.*f|%*d", json!([5, 1, 4, 2, 2, 4.14159, "x", 1]), "    1|2   |4.14|%!(BADWIDTH)1"),
        ("%U %#U %c %q %+q", json!([65, 233, 0x4e16, 120, 233]), "U+0041 U+00E9 'é' 世 'x' '\\u00e9'"),
        (
            "%6.2f|%-8s|%+d|%08.3f|%e|%g",
            json!([4.14159, "ab", 5, -4.14159, 1234.5, 1e10]),
            "  4.14|ab      |+5|-004.142|1.234500e+03|1e+10",
        ),
        (
            "%05d|%+05d|% d|%x|%X|%#x|%o|%O|%b|%#o|%.3d|%6.3d",
            json!([-42, 42, 7, 255, 255, 255, 8, 8, 5, 8, 5, 5]),
            "-0042|+0042| 7|ff|FF|0xff|10|0o10|101|010|005|   005",
        ),
        (
            "%x|% x|%#x|%# X|%.2x|%8x",
            json!(["hello", "hi", "hi", "hi", "hello", "hi"]),
            "68656c6c6f|68 69|0x6869|0X68 0X69|6865|    6869",
        ),
        ("%x|%b|%.3x", json!([1_000_000.0, 1.0, 1.5]), "0x1.e848p+19|4503599627370496p-52|0x1.800p+00"),
        (
            "%g|%g|%.3g|%.10g|%G|%#g|%#.3e|%#.0f",
            json!([100_000.0, 1_234_567.0, 1_234_567.0, 1_234_567.0, 1e-7, 1.5, 2.0, 3.0]),
            "100000|1.234567e+06|1.23e+06|1234567|1E-07|1.50000|2.000e+00|3.",
        ),
        ("%t|%5t|%t", json!([true, false, "x"]), "true|false|%!t(string=x)"),
        ("%d|%d", json!([1]), "1|%!d(MISSING)"),
        ("%d", json!([1, "extra", null]), "1%!(EXTRA string=extra, <nil>)"),
        ("%|%!|%z|100%%|%", json!([3]), "%!|(int=3)%!!(MISSING)|%!z(MISSING)|100%|%!(NOVERB)"),
        (
            "%s|%v|%d|%s|%5v|",
            json!([null, null, "x", true, null]),
            "%!s(<nil>)|<nil>|%!d(string=x)|%!s(bool=true)|<nil>|",
        ),
        (
            "%6.3v|%.2s|%.0f|%5q|%-5q|",
            json!([4.14159, "héllo", 2.5, "a", "b"]),
            "  4.14|hé|2|  \"a\"|\"b\"  |",
        ),
        (
            "%+q|%#q|%#q|%q",
            json!(["é\0", "a", "a`b", "\u{ad}\u{301}\u{1F600}\t"]),
            "\"\\u00e9\\x00\"|`a`|\"a`b\"|\"\\u00ad\u{301}\u{1F600}\\t\"",
        ),
        ("%05s|%-05d|%05t", json!(["ab", 3, true]), "000ab|3    |0true"),
        ("%1000000000d", json!([1]), "%!(NOVERB)%!(EXTRA int=1)"),
        ("%.d|%.0d|%+.2e|%E", json!([3, 0, 12345.678, 0.0]), "3||+1.23e+04|0.000000E+00"),
        // JSON has one kind of number, Go's data `float64` alone.
        ("%.2f|%e|%d", json!([3, 1200, 3.0]), "3.00|1.200000e+03|3"),
    ] {
        assert_eq!(sprintf(format, &values(&args)), expected, "{format}");
    }
}

#[test]
fn values_are_printed_as_go_does() {
    let args = values(&json!([1, 2.5, "a", 3, "b", "c", null, [1e21, null]]));
    assert_eq!(sprint(&args), "1 2.5a3bc<nil> [1e+21 <nil>]");
    assert_eq!(sprintln(&args), "1 2.5 a 3 b c <nil> [1e+21 <nil>]\n");
}

#[test]
fn no_format_grows_beyond_the_most_of_a_text() {
    let begun = std::time::Instant::now();
    let wide = "%9999999d".repeat(10_000);
    let never_closed = "%[".repeat(1_000_000);
    let args = values(&json!([vec![1; 100_000]]));
    for text in [
        sprintf(&wide, &[]),
        sprintf(&never_closed, &[]),
        sprintf("%999999d", &args),
        sprintf(&"%.9999999f".repeat(9), &args),
    ] {
        assert!(text.len() < 2 * MAX_TEXT + 10_000_000, "{}", text.len());
    }
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn no_format_makes_it_panic() {
    let mut random = fastrand::Rng::with_seed(30);
    let alphabet: Vec<char> = "%%%[]*.-+# 0129dvsqxXeEfFgGbcoOtTUpwzé1".chars().collect();
    let args = values(&json!([3, -7, 2.5, "é", null, true, [1, { "k": 1e300 }], u64::MAX, 0.0, 5e-324]));
    for _ in 0..100_000 {
        let length = random.usize(..12);
        let format: String = (0..length).filter_map(|_| random.choice(&alphabet)).collect();
        let from = random.usize(..args.len());
        assert!(sprintf(&format, &args[from..]).len() < 3 * MAX_TEXT + 10_000_000, "{format}");
    }
}
