//! Instances of client programs: running copies that introduce themselves alike.

/// Evidence about which of the clients that have one name, at one address, sent a request without a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientInstance {
    /// There is one such client.
    #[default]
    Only,
    /// The client with this number, which no other client of the process has had.
    Number(u64),
    /// Several clients could have sent it: the request shares no connection with other requests.
    Unknown,
}
