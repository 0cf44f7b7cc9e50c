//! Handing spans to a collector, in batches, by a thread of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter,
};

use crate::config::Trace;

/// A collector that does not answer within this time is away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two batches.
const PACE: Duration = Duration::from_secs(1);
/// Spans that wait at the most; more are dropped.
const WAITING: usize = 8_192;

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("trace.endpoint: spans cannot be sent there: {0}")]
pub struct TraceError(String);

/// What makes spans, when a collector is configured.
pub(super) fn provider(trace: &Trace) -> Result<Option<SdkTracerProvider>, TraceError> {
    let endpoint = trace.endpoint.expose().trim_end_matches('/');
    if endpoint.is_empty() {
        return Ok(None);
    }
    let url = match endpoint.ends_with("/v1/traces") {
        true => endpoint.to_owned(),
        false => format!("{endpoint}/v1/traces"),
    };
    let lines = trace.headers.iter().filter_map(|line| line.expose().split_once(':'));
    let headers: HashMap<String, String> =
        lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect();
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .with_timeout(PATIENCE)
        .with_headers(headers)
        .build()
        .map_err(|error| TraceError(error.to_string()))?;
    let place = trace.endpoint.to_string();
    let watched = Watched { exporter, place, away: AtomicBool::new(false) };
    let batches = BatchConfigBuilder::default()
        .with_scheduled_delay(PACE)
        .with_max_queue_size(WAITING)
        .build();
    let about = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", std::process::id().to_string()),
    ];
    let resource = Resource::builder().with_service_name("feedmill").with_attributes(about).build();
    let sampler = Sampler::TraceIdRatioBased(trace.sample_ratio);
    let provider = SdkTracerProvider::builder()
        .with_span_processor(
            BatchSpanProcessor::builder(watched).with_batch_config(batches).build(),
        )
        .with_sampler(Sampler::ParentBased(Box::new(sampler)))
        .with_resource(resource)
        .build();
    Ok(Some(provider))
}

/// Tells once that a collector is away, and once that it is back.
#[derive(Debug)]
struct Watched<E> {
    exporter: E,
    place: String,
    away: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let done = self.exporter.export(batch).await;
        match (&done, self.away.swap(done.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => tracing::warn!(
                collector = self.place, %error,
                "spans cannot be sent to their collector; work goes on, and they are dropped meanwhile"
            ),
            (Ok(()), true) => tracing::info!(collector = self.place, "spans are sent again"),
            _ => {}
        }
        done
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
