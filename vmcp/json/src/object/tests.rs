use super::*;

fn edited(text: &str, change: impl for<'o, 'a> FnOnce(&mut Edit<'o, 'a>)) -> String {
    let object = Object::parse_str(text).unwrap();
    let mut edit = object.edit();
    change(&mut edit);
    edit.finish().into_cow().into_owned()
}

#[test]
fn reads_entries_in_order_without_copying() {
    let text = "{ \"b\" : 1e400 ,\t\"a\":{\"x\":[1, 2]},\n\"\\u0063\":\"\" }";
    let object = Object::parse_str(text).unwrap();
    let entries: Vec<_> = object.iter().map(|(key, value)| (key, value.get())).collect();
    assert_eq!(entries, [("b", "1e400"), ("a", "{\"x\":[1, 2]}"), ("c", "\"\"")]);
}

#[test]
fn changes_one_key_and_no_other_byte() {
    let text = "{ \"a\" : 1 ,\n \"b\": [ 2 ],\"c\":3 }";
    let set = |key: &'static str| edited(text, |edit| _ = edit.set(key, "9"));
    assert_eq!(set("a"), "{ \"a\" : 9 ,\n \"b\": [ 2 ],\"c\":3 }");
    assert_eq!(set("b"), "{ \"a\" : 1 ,\n \"b\": 9,\"c\":3 }");
    assert_eq!(set("d"), "{ \"a\" : 1 ,\n \"b\": [ 2 ],\"c\":3,\"d\":9 }");
    let remove = |key: &'static str| edited(text, |edit| _ = edit.remove(key));
    assert_eq!(remove("a"), "{ \"b\": [ 2 ],\"c\":3 }");
    assert_eq!(remove("b"), "{ \"a\" : 1,\"c\":3 }");
    assert_eq!(remove("c"), "{ \"a\" : 1 ,\n \"b\": [ 2 ] }");
    assert_eq!(
        edited(text, |edit| _ = edit.rename("b", "\"z")),
        "{ \"a\" : 1 ,\n \"\\\"z\": [ 2 ],\"c\":3 }"
    );
    assert_eq!(edited(text, |edit| _ = edit.rename("a", "c")), "{ \"c\" : 1 ,\n \"b\": [ 2 ] }");
}

#[test]
fn changes_compose() {
    let text = r#"{"a":1,"b":2}"#;
    assert_eq!(edited(text, |e| _ = e.remove("a").remove("b")), "{}");
    assert_eq!(edited(text, |e| _ = e.remove("a").remove("b").set("c", "3")), r#"{"c":3}"#);
    assert_eq!(edited(text, |e| _ = e.remove("a").set("a", "3")), r#"{"b":2,"a":3}"#);
    assert_eq!(edited(text, |e| _ = e.set("c", "3").set("c", "4").remove("b")), r#"{"a":1,"c":4}"#);
    assert_eq!(edited(text, |e| _ = e.set("c", "3").remove("c")), text);
    assert_eq!(edited(text, |e| _ = e.rename("a", "x").set("x", "5")), r#"{"x":5,"b":2}"#);
    assert_eq!(
        edited(text, |e| _ = e.set_if_absent("a", "7").set_if_absent("z", "8")),
        r#"{"a":1,"b":2,"z":8}"#
    );
    assert_eq!(edited("{ }", |e| _ = e.set("a", "1").set("b", "2")), r#"{"a":1,"b":2 }"#);
}

#[test]
fn no_change_gives_the_same_slice_back() {
    let text = r#"{"a":1,"b":2}"#;
    let object = Object::parse_str(text).unwrap();
    let mut edit = object.edit();
    edit.set("a", "1").remove("z").rename("y", "x").set_if_absent("b", "3");
    assert!(edit.is_unchanged());
    assert!(matches!(edit.finish().into_cow(), Cow::Borrowed(same) if std::ptr::eq(same, text)));
}

#[test]
fn refuses_what_two_readers_would_read_differently() {
    let duplicate = |text: &str| Object::parse_str(text).unwrap_err();
    assert_eq!(duplicate(r#"{"a":1,"\u0061":2}"#), ObjectError::DuplicateKey("a".into()));
    let many: Vec<String> = (0..40).map(|i| format!("\"k{}\":0", i % 39)).collect();
    assert_eq!(duplicate(&format!("{{{}}}", many.join(","))), ObjectError::DuplicateKey("k0".into()));
    assert_eq!(duplicate("[]"), ObjectError::NotAnObject);
    assert!(matches!(duplicate(r#"{"\ud800":1}"#), ObjectError::Key(_)));
    assert!(matches!(duplicate(r#"{"a":1} x"#), ObjectError::Syntax(_)));
    assert!(matches!(duplicate(r#"{"a":tru }"#), ObjectError::Syntax(_)));
}
