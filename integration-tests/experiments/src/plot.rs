//! The two kinds of pictures: bars and lines. Knows nothing of what they show.

use plotters::prelude::{
    ChartBuilder, Color as _, IntoFont as _, IntoSegmentedCoord as _, LineSeries, Palette as _, Palette99,
    PathElement, Rectangle, SegmentValue, SeriesLabelPosition, WHITE,
};

use crate::report::{Area, Drawn};

const MARGIN: u32 = 12;
const CAPTION: (&str, u32) = ("sans-serif", 18);

/// One bar for each name.
pub(crate) fn bars<'a>(area: &Area<'a>, title: &str, values: &[(String, f64)]) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let count = i32::try_from(values.len())?;
    let highest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, CAPTION.into_font())
        .margin(MARGIN)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((0..count - 1).into_segmented(), 0.0..highest * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(values.len())
        .x_label_formatter(&|position| match position {
            SegmentValue::CenterOf(index) => {
                values.get(*index as usize).map_or_else(String::new, |(name, _)| name.replace('\n', " "))
            }
            SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
        })
        .draw()?;
    chart.draw_series((0..count).zip(values).map(|(index, (_, value))| {
        let corners = [(SegmentValue::Exact(index), 0.0), (SegmentValue::Exact(index + 1), *value)];
        let mut bar = Rectangle::new(corners, Palette99::pick(index as usize % 3).filled());
        bar.set_margin(0, 0, 8, 8);
        bar
    }))?;
    Ok(())
}

/// One line for each name.
pub(crate) fn lines<'a>(area: &Area<'a>, title: &str, series: &[(String, Vec<(f64, f64)>)]) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let points = || series.iter().flat_map(|(_, points)| points);
    let last = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let first = points().map(|(x, _)| *x).fold(last, f64::min);
    let highest = points().map(|(_, y)| *y).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, CAPTION.into_font())
        .margin(MARGIN)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(first..last, 0.0..highest * 1.1)?;
    chart.configure_mesh().x_desc("s").draw()?;
    for (number, (name, points)) in series.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), &color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
