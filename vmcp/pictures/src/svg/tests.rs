//! Hostile SVGs, and harmless ones after the wall.

use super::*;

const BEGIN: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="100" height="50">"#;

fn svg(body: &str) -> String {
    format!("{BEGIN}{body}</svg>")
}

fn refused(text: &str) -> String {
    let png = to_png(text).err();
    assert_eq!(png, to_svg(text).err(), "both forms pass the same wall: {text}");
    png.unwrap_or_else(|| panic!("{} is drawn", &text[..text.len().min(200)])).to_string()
}

/// Returns the color of a pixel of a PNG, by decoding it again.
fn pixel(png: &Png, x: u32, y: u32) -> (u8, u8, u8) {
    let pixmap = resvg::tiny_skia::Pixmap::decode_png(&png.bytes).unwrap();
    let color = pixmap.pixel(x, y).unwrap();
    (color.red(), color.green(), color.blue())
}

#[test]
fn a_drawing_becomes_pixels_on_white() {
    let png = to_png(&svg(r##"<rect width="50" height="50" fill="#ff0000"/>"##)).unwrap();
    assert_eq!((png.width, png.height), (100, 50));
    assert_eq!((pixel(&png, 10, 10), pixel(&png, 90, 10)), ((255, 0, 0), (255, 255, 255)));
}

#[test]
fn texts_are_drawn_in_the_own_font() {
    for text in ["Größe", "Ελληνικά", "Русский", "10 €"] {
        let drawn = to_png(&svg(&format!(
            r#"<text y="40" font-size="40" font-family="Missing, serif">{text}</text>"#
        )));
        let pixmap = resvg::tiny_skia::Pixmap::decode_png(&drawn.unwrap().bytes).unwrap();
        assert!(pixmap.pixels().iter().filter(|pixel| pixel.red() < 128).count() > 50, "{text}");
    }
}

#[test]
fn what_is_active_or_outside_is_refused() {
    for (body, named) in [
        ("<script>alert(1)</script>", "line 1: <script> is not allowed"),
        ("<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'/></foreignObject>", "<foreignObject>"),
        ("\n<image href='file:///etc/passwd'/>", "line 2: <image> is not allowed"),
        ("<image xlink:href='data:image/png;base64,AAAA'/>", "<image>"),
        ("<animate attributeName='x' dur='1s'/>", "<animate>"),
        ("<set attributeName='href' to='x'/>", "<set>"),
        ("<filter id='f'><feImage href='http://a/'/></filter>", "<filter>"),
        ("<g filter='blur(9)'/>", "line 1: filter may refer"),
        ("<g style='filter:blur(9px)'/>", "style may refer"),
        ("<style>g{filter:blur(9px)}</style>", "style may refer"),
        ("<style>@import 'http://a/x.css';</style>", "style may refer"),
        ("<style>rect{fill:url(#a)}</style>", "style may refer"),
        ("<use href='http://a/b.svg#c'/>", "href may refer"),
        ("<use xlink:href='/etc/passwd#c'/>", "href may refer"),
        ("<rect fill='url(http://a/b)'/>", "fill may refer"),
        ("<rect style=\"fill: url( 'file:///x#y' )\"/>", "style may refer"),
    ] {
        let message = refused(&svg(body));
        assert!(message.contains(named), "{body}: {message}");
    }
}

#[test]
fn documents_with_entities_are_refused() {
    let laughs = r#"<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>"#;
    assert!(refused(&format!("{laughs}{}", svg("<text>&b;</text>"))).contains("no SVG that can be read"));
    let external = r#"<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>"#;
    assert!(refused(&format!("{external}{}", svg("<text>&a;</text>"))).contains("no SVG that can be read"));
    for broken in ["", "<svg", "no svg", "<html/>", "\u{0}"] {
        assert!(!refused(broken).is_empty());
    }
}

#[test]
fn sizes_and_nesting_are_bounded() {
    assert!(refused(&svg(&" ".repeat(MAX_BYTES))).contains("the limit is 1048576"));
    assert!(refused(&svg(&"<g/>".repeat(MAX_ELEMENTS))).contains("more than 20000 elements"));
    for deep in [MAX_DEPTH + 1, 10_000] {
        assert!(
            refused(&svg(&format!("{}{}", "<g>".repeat(deep), "</g>".repeat(deep)))).contains("64 levels")
        );
    }
    // A chain of references is as deep as elements in each other.
    let link = |n: usize| format!("<g id='g{n}'><use href='#g{}'/></g>", n + 1);
    let chain: String = (0..MAX_DEPTH).map(link).collect();
    assert!(refused(&svg(&chain)).contains("64 levels"));
    assert!(refused(&svg(&format!("<text>{}</text>", "x".repeat(200_000)))).contains("more than 100000"));
}

#[test]
fn references_count_with_all_that_they_draw() {
    let layers = |make: &dyn Fn(usize) -> String| (0..20).map(make).collect::<String>();
    let uses = layers(&|n| {
        let inner = format!("<use href='#l{}'/>", n + 1).repeat(10);
        format!("<g id='l{n}'>{inner}</g>")
    });
    let masks = layers(&|n| {
        let inner = format!("<rect width='9' height='9' mask='url(#l{})'/>", n + 1).repeat(10);
        format!("<mask id='l{n}'>{inner}</mask>")
    });
    let patterns = layers(&|n| {
        let inner = format!("<rect width='9' height='9' style='fill:url(\"#l{}\")'/>", n + 1).repeat(10);
        format!("<pattern id='l{n}' width='9' height='9'>{inner}</pattern>")
    });
    for body in [uses, masks, patterns] {
        assert!(refused(&svg(&format!("{body}<g id='l20'/><use href='#l0'/>"))).contains("more than 100000"));
    }
    let marker = format!("<marker id='m'>{}</marker>", "<path d='M0 0'/>".repeat(1000));
    let path = format!("<path marker-mid='url(#m)' d='M0 0{}'/>", "h1".repeat(1000));
    assert!(refused(&svg(&format!("{marker}{path}"))).contains("more than 100000"));
    let twice = "<g id='a'><rect/></g>".to_owned() + &format!("<g id='a'>{}</g>", "<g/>".repeat(1000));
    let first = format!("<g id='a'>{}</g><g id='a'><rect/></g>", "<g/>".repeat(1000));
    for both in [twice, first] {
        let text = svg(&format!("{both}{}", "<use href='#a'/>".repeat(200)));
        assert!(refused(&text).contains("more than 100000"), "an id of two elements counts both");
    }
    // 10,000 elements of one id, 100,000 references to it: a list of all targets would not fit into memory.
    let fill = "url(#a)".repeat(100_000);
    let many = format!("{}<g fill='{fill}'/>", "<g id='a'/>".repeat(10_000));
    assert!(refused(&svg(&many)).contains("more than 100000"));
    for cycle in [
        "<g id='a'><use href='#a'/></g>",
        "<g id='a'><use href='#b'/></g><g id='b'><use href='#a'/></g>",
        "<mask id='a'><rect mask='url(#a)'/></mask>",
    ] {
        assert!(refused(&svg(cycle)).contains("refers to itself"), "{cycle}");
    }
}

#[test]
fn huge_canvases_are_scaled_down_and_empty_ones_refused() {
    for size in ["width='1e9' height='1e9'", "viewBox='0 0 1e9 1e9'", "width='100000' height='2'"] {
        let text =
            format!("<svg xmlns='http://www.w3.org/2000/svg' {size}><rect width='9' height='9'/></svg>");
        let png = to_png(&text).unwrap();
        assert!(png.width <= 1600 && png.height <= 1600, "{size}: {} x {}", png.width, png.height);
        assert_eq!(to_svg(&text), Err(SvgError::Side), "{size}");
    }
}

#[test]
fn numbers_out_of_every_range_end_in_a_picture_or_an_error() {
    let sizes = ["width='0'", "width='-5' height='5'", "width='nan' height='inf'", "viewBox='0 0 1e38 1e38'"];
    let bodies = [
        "<path d='M0 0h1e9' stroke='red' stroke-dasharray='0.0001'/>",
        "<circle r='1e30'/>",
        "<rect width='1e38' height='1e38'/>",
        "<g transform='scale(1e20)'><g transform='scale(1e20)'><circle r='9'/></g></g>",
        "<text font-size='1e9'>x</text>",
        "<path stroke='red' stroke-width='1e30' d='M-1e30 1e30C1e30 1e-30 1e38 1 1 1e38'/>",
    ];
    for size in ["", "viewBox='0 0 1e-30 1e-30'"].into_iter().chain(sizes) {
        for body in bodies {
            let text = format!("<svg xmlns='http://www.w3.org/2000/svg' {size}>{body}</svg>");
            match to_png(&text) {
                Ok(png) => assert!(png.width <= 1600 && png.height <= 1600, "{text}"),
                Err(SvgError::Unreadable(_) | SvgError::Failed | SvgError::Size) => {}
                Err(other) => panic!("{text}: {other}"),
            }
        }
    }
}

#[test]
fn an_svg_is_written_again_without_what_is_active() {
    let body = r#"<defs><linearGradient id="g"><stop stop-color="red"/><stop offset="1" stop-color="blue"/></linearGradient>
        <marker id="m" markerWidth="4" markerHeight="4"><path d="M0,0L4,2L0,4z"/></marker></defs>
        <style>.b { stroke: green }</style>
        <a href="javascript:alert(1)"><rect class="b" width="40" height="40" fill="url(#g)" onload="alert(2)" data-x="y"/></a>
        <path d="M0,0L50,20" stroke="black" marker-end="url(#m)"/>
        <text x="10" y="20" onclick="alert(3)">a &lt; b &amp; c</text><!-- a comment -->
        <x:y xmlns:x="urn:editor">secret</x:y>"#;
    let (width, height, written) = to_svg(&svg(body)).unwrap();
    assert_eq!((width, height), (100, 50));
    for gone in ["javascript", "alert", "onload", "onclick", "data-x", "comment", "secret", "<style", "<a"] {
        assert!(!written.contains(gone), "{gone}: {written}");
    }
    for kept in ["linearGradient", "a &lt; b &amp; c", "<path"] {
        assert!(written.contains(kept), "{kept}: {written}");
    }
    let (before, after) = (to_png(&svg(body)).unwrap(), to_png(&written).unwrap());
    assert_eq!(before.bytes, after.bytes, "it looks the same");
}
