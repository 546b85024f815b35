use super::*;

fn decode(bytes: &[u8]) -> Vec<Event> {
    super::decode([Bytes::copy_from_slice(bytes)], 1024).unwrap()
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
    let mut read = |text: &'static str| decoder.next(&mut Bytes::from(text)).map(|_| decoder.retry());
    assert_eq!(read("retry: 1500\n\nretry: soon\n\nretry: 99999999999999999999\n\n"), Ok(Some(1500)));
    assert_eq!(read("retry: 20\n\n"), Ok(Some(20)));
}

#[test]
fn reads_no_event_or_line_beyond_its_limit() {
    let refuse = |pieces: &[&'static [u8]]| super::decode(pieces.iter().copied(), 16).err();
    let too_large = Some(SseError::TooLarge { limit: 16 });
    assert_eq!(refuse(&[b"data: 0123456789abcdef\n\n", b"data: 0123456789abcdef\n\n"]), None, "per event");
    assert_eq!(refuse(&[b"data: 0123456789abcdef", b"0"]), too_large);
    assert_eq!(refuse(&[b": 01234567890123456"]), too_large, "a line without end");
    assert_eq!(refuse(&[b"data: 01234567\n", b"data: 01234567\n"]), too_large, "lines without end");
    assert_eq!(refuse(&[b"data: \xff\n\n"]), Some(SseError::Encoding));
    assert_eq!(refuse(&[b"id: \xff\n"]), Some(SseError::Encoding));
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
fn data_are_slices_of_what_arrived_and_their_parts_make_the_event() {
    let text = "\u{feff}id: 1\ndata: {\"é\":\"ü€😀\",\ndata:\"b\": [1,\r\ndata\ndata:  2]}\nevent: message\n\ndata: next\n\n";
    let whole = decode(text.as_bytes());
    assert_eq!(whole.len(), 2);
    for size in 1..=text.len() {
        let pieces = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
        assert_eq!(super::decode(pieces, 1024).as_ref(), Ok(&whole), "pieces of {size} bytes");
    }
    let piece = Bytes::from("data: {\"a\":1}\n\n");
    let mut rest = piece.clone();
    let part = Decoder::new(16).next(&mut rest).unwrap();
    let Some(Part::Data(data)) = part else { panic!("{part:?}") };
    assert_eq!((data.as_ptr(), &*data), (piece[6..].as_ptr(), &b"{\"a\":1}"[..]));
}
