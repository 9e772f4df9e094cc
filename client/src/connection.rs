//! The task that drives a session: it turns the session's effects into gRPC and
//! what happens there into events. It decides nothing by itself.

mod mailbox;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

pub(crate) use self::mailbox::Mailbox;
use self::stream::{FromStream, StreamTask};
use crate::clock::{Clock, Time};
use crate::endpoint::Endpoint;
use crate::session::{Effect, Event, Session, SessionStatus};

/// Longest sleep of the task. The system may suspend, and its timers stand
/// still then while the deadline does not: it is looked at this often.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Events of a stream that wait for the task; then the server has to wait.
const EVENT_QUEUE: usize = 32;

/// Runs `session` until it has ended: after [`Mailbox::shut_down`].
pub(crate) async fn run(
    session: Session,
    endpoints: Vec<Endpoint>,
    clock: Clock,
    mailbox: Arc<Mailbox>,
    status: watch::Sender<SessionStatus>,
    shutdown_timeout: Duration,
) {
    let (events, from_streams) = mpsc::channel(EVENT_QUEUE);
    let mut connection = Connection {
        session,
        endpoints,
        clock,
        mailbox,
        status,
        events,
        stream: None,
        channel: None,
        shown: u64::MAX,
        shutdown_timeout,
        give_up: None,
    };
    connection.run(from_streams).await;
}

struct Connection {
    session: Session,
    endpoints: Vec<Endpoint>,
    clock: Clock,
    mailbox: Arc<Mailbox>,
    status: watch::Sender<SessionStatus>,
    /// Where streams put their events; each names its stream, so that late ones
    /// of an old stream are ignored.
    events: mpsc::Sender<FromStream>,
    stream: Option<StreamTask>,
    /// The connection of the last stream and its endpoint's index.
    channel: Option<(usize, tonic::transport::Channel)>,
    /// Revision of the status that was shown last.
    shown: u64,
    /// Longest time from the wish to end to the end.
    shutdown_timeout: Duration,
    /// When an ending session is abandoned.
    give_up: Option<Time>,
}

impl Connection {
    async fn run(&mut self, mut from_streams: mpsc::Receiver<FromStream>) {
        let mut effects = Vec::new();
        self.session.apply(self.clock.now(), Event::Timer, &mut effects);
        while !self.perform(&mut effects) {
            let sleep = self.sleep();
            let event = tokio::select! {
                () = self.mailbox.mail() => None,
                Some(event) = from_streams.recv() => Some(self.translate(event)),
                sent = StreamTask::sent(&mut self.stream) => Some(Event::Sent(sent)),
                () = tokio::time::sleep(sleep) => Some(Event::Timer),
            };
            match event {
                Some(event) => self.session.apply(self.clock.now(), event, &mut effects),
                None => self.read_mail(&mut effects),
            }
            if self.give_up.is_some_and(|give_up| self.clock.now() >= give_up) {
                self.session.abandon(&mut effects);
            }
        }
    }

    /// Does what the session wants. True: the session has ended.
    fn perform(&mut self, effects: &mut Vec<Effect>) -> bool {
        let mut finished = false;
        for effect in effects.drain(..) {
            match effect {
                Effect::Open { stream, endpoint, reuse } => {
                    let kept = self.channel.take().filter(|(of, _)| reuse && *of == endpoint);
                    let channel = kept.map(|(_, channel)| channel);
                    let address = self.endpoints[endpoint].clone();
                    self.stream =
                        Some(StreamTask::spawn(stream, endpoint, address, channel, self.events.clone()));
                }
                Effect::Send(stream, message) => {
                    if let Some(open) = self.stream.as_mut().filter(|open| open.id() == stream) {
                        open.send(message);
                    }
                }
                Effect::Drop(stream) => {
                    self.stream.take_if(|open| open.id() == stream);
                }
                Effect::Finished => finished = true,
            }
        }
        if self.shown != self.session.revision() {
            self.shown = self.session.revision();
            self.status.send_replace(self.session.status());
        }
        finished
    }

    fn translate(&mut self, event: FromStream) -> Event {
        match event {
            FromStream::Connected { stream, endpoint, channel } => {
                self.channel = Some((endpoint, channel));
                Event::Connected(stream)
            }
            FromStream::Received(stream, message) => Event::Received(stream, message),
            FromStream::Ended(stream, reason) => {
                self.stream.take_if(|open| open.id() == stream);
                Event::Ended(stream, reason)
            }
        }
    }

    fn read_mail(&mut self, effects: &mut Vec<Effect>) {
        let now = self.clock.now();
        let mail = self.mailbox.take();
        for (database, governed) in mail.registered {
            self.session.register(now, database, governed, effects);
        }
        for database in mail.changed {
            self.session.apply(now, Event::Changed(database), effects);
        }
        if mail.shut_down && self.give_up.is_none() {
            self.give_up = Some(now + self.shutdown_timeout);
            self.session.apply(now, Event::Shutdown, effects);
        }
    }

    fn sleep(&self) -> Duration {
        let timers = [self.session.next_timer(), self.give_up];
        let next = timers.into_iter().flatten().min().map(|timer| timer - self.clock.now());
        next.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
    }
}
