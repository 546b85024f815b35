use super::*;

fn decode(bytes: &[u8]) -> Vec<Event> {
    Decoder::new(1024).push(bytes).unwrap()
}

fn data(text: &str) -> Event {
    Event { data: text.into(), ..Event::default() }
}

#[test]
fn reads_every_form_of_line_and_field() {
    assert_eq!(decode(b"data: a\n\ndata:b\r\n\r\ndata:  c\r\r"), [data("a"), data("b"), data(" c")]);
    assert_eq!(decode(b"data: 1\ndata\ndata: 3\n\n"), [data("1\n\n3")]);
    assert_eq!(decode(b"\xef\xbb\xbfdata: bom\n\n"), [data("bom")]);
    assert_eq!(decode(b": hello\n\n:\nother: x\n\ndata: y\n:z\n\n"), [data("y")]);
    let named = Event { event: Some("message".into()), data: "{}".into(), id: Some("7".into()) };
    assert_eq!(decode(b"event: message\nid: 7\ndata: {}\n\n"), [named]);
    assert_eq!(decode(b"data:\n\n"), [data("")], "a priming event");
    assert_eq!(
        decode(b"event: x\n\ndata: y\n\n"),
        [data("y")],
        "the type of an event without data is forgotten"
    );
    let later = Event { id: Some("1".into()), ..data("y") };
    assert_eq!(decode(b"id: 1\n\nid: a\0b\ndata: y\n\n"), [later], "its id is not");
    assert_eq!(decode(b"data: half\n"), []);
}

#[test]
fn remembers_when_to_reconnect() {
    let mut decoder = Decoder::new(64);
    decoder.push(b"retry: 1500\n\nretry: soon\n\nretry: 99999999999999999999\n\n").unwrap();
    assert_eq!(decoder.retry(), Some(1500));
    assert_eq!(decoder.push(b"retry: 20\n\n"), Ok(vec![]));
    assert_eq!(decoder.retry(), Some(20));
}

#[test]
fn holds_no_more_than_its_limit() {
    let refuse = |pieces: &[&[u8]]| {
        let mut decoder = Decoder::new(16);
        pieces.iter().find_map(|piece| decoder.push(piece).err())
    };
    let too_large = Some(SseError::TooLarge { limit: 16 });
    assert_eq!(refuse(&[b"data: 0123456789\n\n", b"data: 0123456789\n\n"]), None, "the limit is per event");
    assert_eq!(refuse(&[b"data: 0123456789", b"0"]), too_large);
    assert_eq!(refuse(&[&[b'x'; 17]]), too_large, "a line without end");
    assert_eq!(refuse(&[b"data: 01234567\n", b"data: 01234567\n"]), too_large, "lines without end");
    assert_eq!(refuse(&[b"data: \xff\n"]), Some(SseError::Encoding));
}

#[test]
fn what_is_encoded_is_decoded() {
    let encoded = encode(Some("message\nid: forged"), Some("1\r2"), "{\"a\":\r\n1,\r\"b\":\n2}");
    let event =
        Event { event: Some("message".into()), id: Some("1".into()), data: "{\"a\":\n1,\n\"b\":\n2}".into() };
    assert_eq!(decode(&[KEEP_ALIVE, &encoded].concat()), [event]);
    assert_eq!(decode(&encode(None, None, "")), [data("")]);
}

#[test]
fn data_that_is_taken_early_is_the_data() {
    let text =
        "id: 1\ndata: {\"é\":\"ü€😀\",\ndata:\"b\": [1,\ndata\ndata:  2]}\nevent: message\n\ndata: next\n\n";
    let whole = decode(text.as_bytes());
    for size in 1..=text.len() {
        for least in [1, 3, 20] {
            let mut decoder = Decoder::new(1024);
            let (mut events, mut early) = (Vec::new(), String::new());
            for mut piece in text.as_bytes().chunks(size) {
                while let Some(mut event) = decoder.next(&mut piece).unwrap() {
                    event.data.insert_str(0, &std::mem::take(&mut early));
                    events.push(event);
                }
                if let Some(data) = decoder.take_data(least).unwrap() {
                    early.push_str(&data);
                }
            }
            assert_eq!(events, whole, "pieces of {size} bytes, {least} at least");
        }
    }
    let mut decoder = Decoder::new(16);
    decoder.push(b"data: a").unwrap();
    assert_eq!(decoder.take_data(1), Ok(Some("a".to_owned())));
    decoder.push(&[0xc3]).unwrap();
    assert_eq!(decoder.take_data(1), Ok(None), "half a character is no data: a reader would ask for ever");
    assert_eq!(decoder.push(&[0xa9, b'\n', b'\n']), Ok(vec![data("é")]));
    let mut decoder = Decoder::new(16);
    decoder.push(b"data: ").unwrap();
    for _ in 0..100 {
        decoder.push(b"01234567").unwrap();
        assert_eq!(
            decoder.take_data(4),
            Ok(Some("01234567".to_owned())),
            "beyond the limit, which it spares"
        );
    }
}
