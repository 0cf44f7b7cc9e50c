//! The lines of etiquette that fetching and polling have to keep, one test each.
//!
//! A test plays a publisher, word for word, lets the engine loose on it, and judges from the
//! publisher's own log.

mod again;
mod body;
mod conditional;
mod hops;
mod manners;
mod pace;
mod request;
mod robots;
pub(crate) mod stage;
mod status;

use stage::Stage;

/// All lines on one database. A line that is not listed here is dead code, and the build says so.
macro_rules! etiquette {
    ($backend:ident: $($area:ident { $($line:ident,)+ })+) => {
        mod $backend {
            $(mod $area {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $line() {
                    if let Some(stage) = super::super::Stage::$backend().await {
                        super::super::$area::$line(stage).await;
                    }
                })+
            })+
        }
    };
    ($($backend:ident)+) => {
        $(etiquette!($backend:
            again {
                once_is_enough_unless_it_is_said,
                an_interval_brings_so_many_conditional_requests,
                a_newer_lastmod_brings_a_page_again,
            }
            conditional {
                line_01_validators_are_echoed_byte_for_byte,
                line_02_both_validators_are_sent,
                line_03_every_200_replaces_both_validators,
                line_04_a_304_brings_new_validators_and_freshness,
                line_05_validators_belong_to_the_final_address,
                line_06_what_could_not_be_read_leaves_no_validators,
                line_07_restart_import_and_manual_refresh_stay_conditional,
                line_08_adding_a_feed_is_one_request,
                line_09_differences_are_neither_asked_for_nor_taken,
            }
            pace {
                line_10_nobody_is_asked_more_often_than_is_polite,
                line_11_what_is_fresh_is_not_asked_for,
                line_12_wishes_of_a_document_are_kept,
                line_13_spacing_outlasts_restarts_and_clock_steps,
                line_13_a_clock_years_ahead_does_not_stop_polls,
                line_14_polls_do_not_align_and_a_backlog_is_spread,
            }
            status {
                line_15_a_host_and_a_group_have_one_token,
                line_17_retry_after_is_kept_to_the_letter,
                line_18_complaints_without_a_time_double_the_wait_and_the_pace_stays_lower,
                line_19_fast_errors_do_not_speed_us_up,
                line_20_a_403_is_tried_far_slower_under_the_same_name,
                line_21_a_410_ends_a_feed_and_a_404_slows_it_down,
                line_22_only_a_lasting_move_to_the_same_feed_is_stored,
                line_23_redirects_end_and_every_hop_is_guarded_and_polite,
                line_24_refusals_end_and_server_errors_back_off,
            }
            hops {
                line_23_who_leads_to_a_busy_host_is_not_asked_again_and_again,
                line_23_every_queue_keeps_its_pause_whoever_was_asked_in_between,
                line_23_no_redirect_leads_to_a_host_that_was_taken_down,
                line_23_redirects_are_counted_over_all_hosts,
                line_23_a_sitemap_in_a_sitemap_has_all_its_redirects,
                line_31_waits_for_robots_of_a_hop_grow_also_over_restarts,
                line_31_robots_of_a_hop_that_cannot_be_had_make_the_host_wait,
            }
            request {
                line_25_the_agent_is_honest_and_always_the_same,
                line_26_no_cookies_no_referer_no_added_query,
                line_27_codings_are_asked_for_and_decoded_over_one_connection,
                line_28_head_is_never_used,
                line_29_only_what_is_needed_is_asked_for,
                line_30_size_headers_depth_and_entities_have_limits,
            }
            robots {
                line_31_robots_are_had_by_the_rules,
                line_31_a_hop_to_another_origin_is_under_its_own_rules,
                line_32_a_long_crawl_delay_is_kept,
                line_33_queued_pages_are_checked_against_todays_rules,
                line_34_signals_about_use_are_kept_with_the_article,
            }
            body {
                line_35_a_body_like_the_last_one_still_brings_its_validators,
                line_36_frozen_validators_are_probed_once_a_day,
                line_37_a_page_in_place_of_a_feed_is_an_error,
                line_38_dates_to_come_are_kept_as_written,
            }
            manners {
                line_39_publishers_can_reach_us_opt_out_and_see_what_was_asked,
                line_40_a_publisher_can_see_how_we_behave_with_one_request,
            }
        );)+
    };
}

etiquette!(sqlite postgres);
