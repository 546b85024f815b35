//! A fake embedding service that speaks both TEI's and OpenAI's protocol, for tests.
