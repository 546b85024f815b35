//! A bounded queue of the events of one call. Most calls have none: unlike a channel of tokio, which begins
//! with room for 32 messages on cache lines of their own, an empty queue is one small allocation.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::event::Event;

/// The queue is full, or its receiver is gone; the event comes back.
#[derive(Debug)]
pub struct NotQueued(pub Event);

/// Creates a queue with room for `capacity` events; beyond them [`EventSender::send`] waits (backpressure).
pub fn event_queue(capacity: usize) -> (EventSender, EventReceiver) {
    let queue = Arc::new(Queue { room: Semaphore::new(capacity), state: Mutex::new(State::new()) });
    (EventSender { queue: Arc::clone(&queue), map: None }, EventReceiver(queue))
}

/// Changes an event on its way to the client; `None` drops it.
pub type EventMap = Arc<dyn Fn(Event) -> Option<Event> + Send + Sync>;

/// The end of a queue that backends write to. Clones write to the same queue.
pub struct EventSender {
    queue: Arc<Queue>,
    map: Option<EventMap>,
}

/// The end of a queue that the caller reads.
pub struct EventReceiver(Arc<Queue>);

struct Queue {
    /// A permit for each event that may still be queued; closed with the receiver.
    room: Semaphore,
    state: Mutex<State>,
}

struct State {
    events: VecDeque<Event>,
    /// The receiver's task, while it waits.
    waiting: Option<Waker>,
    senders: usize,
    /// True once the receiver is gone.
    is_closed: bool,
}

impl State {
    fn new() -> Self {
        Self { events: VecDeque::new(), waiting: None, senders: 1, is_closed: false }
    }
}

impl EventSender {
    /// Returns a sender to the same queue; its events pass through `map`, then through this sender's own map.
    #[must_use]
    pub fn mapped(&self, map: EventMap) -> EventSender {
        self.queue.state.lock().senders += 1;
        let map: EventMap = match self.map.clone() {
            Some(own) => Arc::new(move |event| own(map(event)?)),
            None => map,
        };
        EventSender { queue: Arc::clone(&self.queue), map: Some(map) }
    }

    /// Waits for room and queues an event.
    pub async fn send(&self, event: Event) -> Result<(), NotQueued> {
        let Some(event) = self.changed(event) else { return Ok(()) };
        match self.queue.room.acquire().await {
            Ok(permit) => {
                permit.forget();
                self.queue.push(event);
                Ok(())
            }
            Err(_) => Err(NotQueued(event)),
        }
    }

    /// Queues an event, if there is room.
    pub fn try_send(&self, event: Event) -> Result<(), NotQueued> {
        let Some(event) = self.changed(event) else { return Ok(()) };
        match self.queue.room.try_acquire() {
            Ok(permit) => {
                permit.forget();
                self.queue.push(event);
                Ok(())
            }
            Err(_) => Err(NotQueued(event)),
        }
    }

    fn changed(&self, event: Event) -> Option<Event> {
        match &self.map {
            Some(map) => map(event),
            None => Some(event),
        }
    }
}

impl EventReceiver {
    /// Polls for the next event; `None` once all senders are gone.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.0.state.lock();
        if let Some(event) = state.events.pop_front() {
            self.0.room.add_permits(1);
            return Poll::Ready(Some(event));
        }
        if state.senders == 0 {
            return Poll::Ready(None);
        }
        if state.waiting.as_ref().is_none_or(|waiting| !waiting.will_wake(context.waker())) {
            state.waiting = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Waits for the next event; `None` once all senders are gone.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Returns the next event, if one is queued.
    pub fn try_recv(&mut self) -> Option<Event> {
        let event = self.0.state.lock().events.pop_front()?;
        self.0.room.add_permits(1);
        Some(event)
    }
}

impl Queue {
    fn push(&self, event: Event) {
        let mut state = self.state.lock();
        if state.is_closed {
            // The receiver went between the permit and here; the event is dropped, without the lock.
            drop(state);
            return drop(event);
        }
        state.events.push_back(event);
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

impl Clone for EventSender {
    fn clone(&self) -> Self {
        self.queue.state.lock().senders += 1;
        Self { queue: Arc::clone(&self.queue), map: self.map.clone() }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.senders -= 1;
        let waiting = if state.senders == 0 { state.waiting.take() } else { None };
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        self.0.room.close();
        // A dropped question tells its backend that no answer comes.
        let mut state = self.0.state.lock();
        state.is_closed = true;
        let unread = std::mem::take(&mut state.events);
        drop(state);
        drop(unread);
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").finish_non_exhaustive()
    }
}

impl fmt::Debug for EventReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReceiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::value::RawValue;
    use tokio::time::{sleep, timeout};

    use super::*;

    fn event(number: u32) -> Event {
        Event::Notification(RawValue::from_string(number.to_string()).unwrap())
    }

    fn number(event: Option<Event>) -> Option<String> {
        let Event::Notification(number) = event? else { panic!("a notification") };
        Some(number.get().to_owned())
    }

    #[tokio::test]
    async fn events_arrive_in_order_and_a_full_queue_makes_its_sender_wait() {
        let (sender, mut receiver) = event_queue(2);
        sender.send(event(1)).await.unwrap();
        sender.try_send(event(2)).unwrap();
        assert!(sender.try_send(event(3)).is_err());
        let late = tokio::spawn(async move { sender.send(event(3)).await });
        sleep(Duration::from_millis(20)).await;
        assert!(!late.is_finished());
        assert_eq!(number(receiver.recv().await).as_deref(), Some("1"));
        late.await.unwrap().unwrap();
        assert_eq!(number(receiver.try_recv()).as_deref(), Some("2"));
        assert_eq!(number(receiver.recv().await).as_deref(), Some("3"));
        assert!(receiver.recv().await.is_none(), "its sender is gone");
    }

    #[tokio::test]
    async fn a_waiting_receiver_is_woken_by_an_event_and_by_the_end_of_the_last_sender() {
        let (sender, mut receiver) = event_queue(1);
        let other = sender.clone();
        let read = tokio::spawn(async move { (receiver.recv().await, receiver.recv().await) });
        sleep(Duration::from_millis(20)).await;
        other.send(event(1)).await.unwrap();
        drop(other);
        sleep(Duration::from_millis(20)).await;
        assert!(!read.is_finished());
        drop(sender);
        let (first, end) = timeout(Duration::from_secs(5), read).await.unwrap().unwrap();
        assert_eq!((number(first).as_deref(), end.is_none()), (Some("1"), true));
    }

    #[tokio::test]
    async fn nothing_is_queued_for_a_receiver_that_is_gone() {
        let (sender, receiver) = event_queue(1);
        sender.send(event(1)).await.unwrap();
        let waiting = tokio::spawn({
            let sender = sender.clone();
            async move { sender.send(event(2)).await }
        });
        sleep(Duration::from_millis(20)).await;
        drop(receiver);
        assert!(timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap().is_err());
        assert!(sender.send(event(3)).await.is_err() && sender.try_send(event(3)).is_err());
    }
}
