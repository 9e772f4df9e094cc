//! Tables as operators know them from kubectl: no borders, a heading in capitals,
//! numbers to the right, never wrapped or cut, whatever the terminal. Knows nothing
//! of what the columns mean.

use std::borrow::Cow;

use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};

use crate::output::human;

/// Blank columns between two columns of a table.
const GAP: u16 = 2;
/// Shown where there is no value.
pub(crate) const NOTHING: &str = "-";

/// On which side a column's cells begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// For words.
    Text(&'static str),
    /// For counts and durations.
    Number(&'static str),
}

/// The table of `rows` under a heading, without an end of line.
pub(crate) fn with_heading<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut grid = empty_grid();
    grid.set_header(columns.iter().map(|column| match column {
        Column::Text(name) | Column::Number(name) => *name,
    }));
    add_rows(&mut grid, rows);
    for (column, setting) in columns.iter().zip(grid.column_iter_mut()) {
        setting.set_padding((0, GAP));
        setting.set_cell_alignment(match column {
            Column::Text(_) => CellAlignment::Left,
            Column::Number(_) => CellAlignment::Right,
        });
    }
    grid.trim_fmt()
}

/// Names and values below each other, for everything about one thing.
pub(crate) fn properties(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut grid = empty_grid();
    add_rows(&mut grid, rows.into_iter().map(|(name, value)| [format!("{name}:"), value]));
    for setting in grid.column_iter_mut() {
        setting.set_padding((0, GAP));
    }
    grid.trim_fmt()
}

fn empty_grid() -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    // Cut or wrapped rows would break `grep` and `awk`, and differ between a pipe and
    // a terminal.
    grid.set_content_arrangement(ContentArrangement::Disabled);
    grid
}

fn add_rows<const N: usize>(grid: &mut Grid, rows: impl IntoIterator<Item = [String; N]>) {
    for row in rows {
        // A node chooses its own name: no cell may break out of its row.
        grid.add_row(row.iter().map(|cell| human::plain(cell)).collect::<Vec<Cow<'_, str>>>());
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, properties, with_heading};

    #[test]
    fn numbers_stand_right_and_words_left() {
        let rows = [("orders", 7), ("a", 12_345)].map(|(name, count)| [name.to_owned(), count.to_string()]);
        insta::assert_snapshot!(with_heading([Column::Text("NAME"), Column::Number("HELD")], rows), @"
        NAME     HELD
        orders      7
        a       12345
        ");
    }

    #[test]
    fn wide_characters_keep_their_columns() {
        let rows = [("ノード一", 1), ("café", 22), ("🦀", 333)]
            .map(|(name, count)| [name.to_owned(), count.to_string()]);
        insta::assert_snapshot!(with_heading([Column::Text("NODE"), Column::Number("N")], rows), @"
        NODE        N
        ノード一    1
        café       22
        🦀        333
        ");
    }

    #[test]
    fn a_name_cannot_break_out_of_its_row() {
        let rows = [["evil\nroot  9\x1b[2J".to_owned(), "1".to_owned()]];
        insta::assert_snapshot!(with_heading([Column::Text("NODE"), Column::Number("N")], rows), @r"
        NODE                       N
        evil\u{a}root  9\u{1b}[2J  1
        ");
    }

    #[test]
    fn properties_are_aligned() {
        insta::assert_snapshot!(properties([("cap", "100".to_owned()), ("draining", "no".to_owned())]), @"
        cap:       100
        draining:  no
        ");
    }
}
