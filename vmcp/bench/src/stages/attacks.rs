//! Stages about clients that take what others need: `half-sent` and `hostile`.

pub(crate) mod flooding;
pub(crate) mod half_sent;
pub(crate) mod hostile;
