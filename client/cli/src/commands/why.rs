//! `leasehold why`: what a session or a node has, what it waits for, and by which
//! rule.

use std::io::Write;

use leasehold_proto::v1::{self, WhyRequest};
use serde::Serialize;

use crate::connect::Connection;
use crate::error::Error;
use crate::output::table::{self, Column, NOTHING};
use crate::output::{Output, Report, human};
use crate::report::Lease;

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    explanations: Vec<Explanation>,
    /// How many more there are.
    left_out: u32,
}

/// One session, or one call that waits, at one database. Counts are tokens.
#[derive(Debug, Serialize)]
struct Explanation {
    session: String,
    node: String,
    database: String,
    workload: String,
    /// Null for a call that waits for its first token.
    lease: Option<Lease>,
    workload_held: u32,
    /// Null where there is no other workload.
    workload_target_thousandths: Option<u64>,
    demand: u32,
    need: u32,
    /// Null for a call.
    share_thousandths: Option<u64>,
    /// Null when it needs nothing.
    place: Option<u32>,
    in_line: u32,
    reason: String,
    waits_for: String,
    /// Null when it is none of admission's.
    rule: Option<u32>,
    giving: u32,
    promises: Vec<Promise>,
    /// Null when it would have waited for nothing.
    shadowed: Option<Shadowed>,
    holders: Vec<Holder>,
}

/// A busy token that was asked for on its behalf.
#[derive(Debug, Serialize)]
struct Promise {
    donor: String,
    rule: u32,
    rule_name: String,
    asked_ms: u64,
}

/// What shadow mode has granted it that it would have waited for.
#[derive(Debug, Serialize)]
struct Shadowed {
    tokens: u64,
    reason: String,
    waits_for: String,
    /// Null when it is none of admission's.
    rule: Option<u32>,
    ago_ms: u64,
}

/// Somebody who holds tokens of the same database.
#[derive(Debug, Serialize)]
struct Holder {
    session: String,
    node: String,
    workload: String,
    lease: Lease,
}

/// Explains a session or a node, at one database or at all.
pub(super) async fn run<W: Write>(
    connection: &mut Connection,
    output: &mut Output<W>,
    subject: &str,
    database: Option<&str>,
) -> Result<(), Error> {
    let database = database.unwrap_or_default().to_owned();
    let request = WhyRequest { subject: subject.to_owned(), database };
    let reply = connection.read(async |client| client.why(request).await).await?;
    let answer = Answer::from(reply);
    output.show(&answer)?;
    if answer.left_out > 0 {
        let left_out = human::count(answer.left_out, "more lease");
        output.remark(&format!(
            "{left_out} that wait for a shorter time: ask for a session, or with --database"
        ));
    }
    Ok(())
}

impl Report for Answer {
    fn text(&self) -> String {
        self.explanations.iter().map(Explanation::text).collect::<Vec<_>>().join("\n\n")
    }
}

impl Explanation {
    fn text(&self) -> String {
        let mut sections = vec![table::properties(self.properties())];
        if !self.promises.is_empty() {
            let columns = [Column::Text("ASKED-FOR-IT"), Column::Text("RULE"), Column::Number("SINCE")];
            sections.push(table::with_heading(columns, self.promises.iter().map(Promise::row)));
        }
        if !self.holders.is_empty() {
            let columns = [
                Column::Text("HELD-BY"),
                Column::Text("NODE"),
                Column::Text("WORKLOAD"),
                Column::Number("HELD"),
                Column::Number("IN-USE"),
                Column::Number("IDLE"),
                Column::Number("WAITING"),
                Column::Number("OLDEST"),
                Column::Number("MEAN-HOLD"),
            ];
            sections.push(table::with_heading(columns, self.holders.iter().map(Holder::row)));
        }
        sections.join("\n\n")
    }

    fn properties(&self) -> Vec<(&'static str, String)> {
        let place =
            self.place.map_or_else(|| NOTHING.to_owned(), |place| format!("{place} of {}", self.in_line));
        let mut rows = vec![
            ("node", format!("{}, session {}", self.node, human::short_id(&self.session))),
            ("database", self.database.clone()),
            ("workload", self.workload_in_words()),
            ("demand", self.demand_in_words()),
            ("has", self.has_in_words()),
            ("place", place),
            ("waits for", self.waits_for_in_words()),
        ];
        rows.extend(self.shadowed.as_ref().map(|shadowed| ("shadow mode", shadowed.in_words())));
        rows
    }

    /// "web, which holds 33 of 40.5".
    fn workload_in_words(&self) -> String {
        let Explanation { workload, workload_held, workload_target_thousandths, .. } = self;
        match workload_target_thousandths {
            Some(target) => {
                format!(
                    "{workload}, which holds {workload_held} and is to have {}",
                    human::thousandths(*target)
                )
            }
            None => workload.clone(),
        }
    }

    /// "14: 10 in use, 1 opening, 4 waiting, the oldest for 83ms".
    fn demand_in_words(&self) -> String {
        let Some(lease) = &self.lease else { return format!("{}, by a call that waits", self.demand) };
        let parts = [(lease.in_use, "in use"), (lease.opening, "opening"), (lease.waiting, "waiting")];
        let mut parts: Vec<String> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if lease.waiting > 0 {
            parts.push(format!("the oldest for {}", human::age(lease.oldest_wait_ms)));
        }
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        format!("{}{parts}", self.demand)
    }

    /// "12 (2 of them asked back), of a share of 17.5".
    fn has_in_words(&self) -> String {
        let held = self.lease.as_ref().map_or(0, |lease| lease.held);
        let giving =
            if self.giving > 0 { format!(" ({} of them asked back)", self.giving) } else { String::new() };
        let share = self
            .share_thousandths
            .map_or_else(String::new, |share| format!(", its share is {}", human::thousandths(share)));
        format!("{held}{giving}{share}")
    }

    fn waits_for_in_words(&self) -> String {
        let rule = self.rule.map_or_else(String::new, |rule| format!(" (rule {rule})"));
        let need = if self.need > 0 {
            format!("{} more: ", human::count(self.need, "token"))
        } else {
            String::new()
        };
        format!("{need}{}{rule}", self.waits_for)
    }
}

impl Shadowed {
    fn in_words(&self) -> String {
        let Shadowed { tokens, waits_for, rule, ago_ms, .. } = self;
        let rule = rule.map_or_else(String::new, |rule| format!(" (rule {rule})"));
        let ago = human::age(*ago_ms);
        format!(
            "would have waited for {tokens} of its tokens, the last time {ago} ago, for {waits_for}{rule}"
        )
    }
}

impl Promise {
    fn row(&self) -> [String; 3] {
        let Promise { donor, rule, rule_name, asked_ms } = self;
        [donor.clone(), format!("{rule} ({rule_name})"), human::age(*asked_ms)]
    }
}

impl Holder {
    fn row(&self) -> [String; 9] {
        let Holder { session, node, workload, lease } = self;
        let unless_zero = |number: u64, text: String| if number == 0 { NOTHING.to_owned() } else { text };
        [
            human::short_id(session).to_owned(),
            node.clone(),
            workload.clone(),
            lease.held.to_string(),
            lease.in_use.to_string(),
            lease.idle.to_string(),
            lease.waiting.to_string(),
            unless_zero(lease.waiting.into(), human::age(lease.oldest_wait_ms)),
            unless_zero(lease.mean_hold_us, human::mean(lease.mean_hold_us)),
        ]
    }
}

impl From<v1::WhyReply> for Answer {
    fn from(reply: v1::WhyReply) -> Self {
        let explanations = reply.explanations.into_iter().map(Explanation::from).collect();
        Answer { explanations, left_out: reply.left_out }
    }
}

impl From<v1::Explanation> for Explanation {
    fn from(found: v1::Explanation) -> Self {
        Explanation {
            session: found.session,
            node: found.node,
            database: found.database,
            workload: found.workload,
            lease: found.lease.map(Lease::from),
            workload_held: found.workload_held,
            workload_target_thousandths: found.workload_target_thousandths,
            demand: found.demand,
            need: found.need,
            share_thousandths: found.share_thousandths,
            place: found.place,
            in_line: found.in_line,
            reason: found.reason,
            waits_for: found.waits_for,
            rule: Some(found.rule).filter(|rule| *rule > 0),
            giving: found.giving,
            promises: found.promises.into_iter().map(Promise::from).collect(),
            shadowed: found.shadowed.map(Shadowed::from),
            holders: found.holders.into_iter().map(Holder::from).collect(),
        }
    }
}

impl From<v1::Promise> for Promise {
    fn from(found: v1::Promise) -> Self {
        let v1::Promise { donor, rule, rule_name, asked_ms } = found;
        Promise { donor, rule, rule_name, asked_ms }
    }
}

impl From<v1::Shadowed> for Shadowed {
    fn from(found: v1::Shadowed) -> Self {
        let v1::Shadowed { tokens, reason, waits_for, rule, ago_ms } = found;
        Shadowed { tokens, reason, waits_for, rule: Some(rule).filter(|rule| *rule > 0), ago_ms }
    }
}

impl From<v1::Holder> for Holder {
    fn from(found: v1::Holder) -> Self {
        let v1::Holder { session, node, workload, lease } = found;
        Holder { session, node, workload, lease: Lease::from(lease.unwrap_or_default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;
    use crate::commands::samples;
    use crate::output::Report;

    #[test]
    fn a_node_that_waits_is_explained() {
        insta::assert_snapshot!(Answer::from(samples::why()).text(), @"
        node:       web-1, session 3f9a2c51d0b4
        database:   orders
        workload:   web, which holds 12 and is to have 33.3
        demand:     15: 10 in use, 1 opening, 4 waiting, the oldest for 83ms
        has:        12, its share is 33
        place:      1 of 2
        waits for:  4 tokens more: the next return at batch-1, which was asked for a token (rule 9)

        ASKED-FOR-IT  RULE        SINCE
        batch-1       9 (target)   42ms

        HELD-BY       NODE     WORKLOAD  HELD  IN-USE  IDLE  WAITING  OLDEST  MEAN-HOLD
        bb0000000000  batch-1  batch       78      75     3        0       -       51ms
        3f9a2c51d0b4  web-1    web         12      10     0        4    83ms      4.3ms

        node:         report.py, session cc0000000000
        database:     billing
        workload:     default
        demand:       2, by a call that waits
        has:          0
        place:        1 of 1
        waits for:    2 tokens more: the end of the drain: `leasehold resume`
        shadow mode:  would have waited for 3 of its tokens, the last time 1m1s ago, for others of the workload `batch`, which is at its limit of 5 (rule 10)
        ");
    }

    #[test]
    fn the_json_keeps_its_promise() {
        let mut answer = Answer::from(samples::why());
        answer.explanations.truncate(1);
        insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap(), @r#"
        {
          "explanations": [
            {
              "session": "3f9a2c51d0b47e8896a1c2d3e4f50617",
              "node": "web-1",
              "database": "orders",
              "workload": "web",
              "lease": {
                "database": "orders",
                "allotment": 12,
                "holding": 12,
                "held": 12,
                "ceiling": 16,
                "in_use": 10,
                "idle": 0,
                "opening": 1,
                "closing": 1,
                "waiting": 4,
                "oldest_wait_ms": 83,
                "mean_hold_us": 4310
              },
              "workload_held": 12,
              "workload_target_thousandths": 33300,
              "demand": 15,
              "need": 4,
              "share_thousandths": 33000,
              "place": 1,
              "in_line": 2,
              "reason": "promised",
              "waits_for": "the next return at batch-1, which was asked for a token",
              "rule": 9,
              "giving": 0,
              "promises": [
                {
                  "donor": "batch-1",
                  "rule": 9,
                  "rule_name": "target",
                  "asked_ms": 42
                }
              ],
              "shadowed": null,
              "holders": [
                {
                  "session": "bb00000000000000000000000000000b",
                  "node": "batch-1",
                  "workload": "batch",
                  "lease": {
                    "database": "",
                    "allotment": 0,
                    "holding": 0,
                    "held": 78,
                    "ceiling": 0,
                    "in_use": 75,
                    "idle": 3,
                    "opening": 0,
                    "closing": 0,
                    "waiting": 0,
                    "oldest_wait_ms": 0,
                    "mean_hold_us": 51200
                  }
                },
                {
                  "session": "3f9a2c51d0b47e8896a1c2d3e4f50617",
                  "node": "web-1",
                  "workload": "web",
                  "lease": {
                    "database": "orders",
                    "allotment": 12,
                    "holding": 12,
                    "held": 12,
                    "ceiling": 16,
                    "in_use": 10,
                    "idle": 0,
                    "opening": 1,
                    "closing": 1,
                    "waiting": 4,
                    "oldest_wait_ms": 83,
                    "mean_hold_us": 4310
                  }
                }
              ]
            }
          ],
          "left_out": 0
        }
        "#);
    }
}
