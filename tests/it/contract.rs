//! What every backend of the frontier and the store must keep, as one suite.
//!
//! A case knows nothing of the backend: it gets a way to open one and says what must hold. A
//! further backend implements [`Backend`], gets a function like [`sqlite`] and one more line
//! `contract!(..)` at the end. Time is a clock that the cases move by hand.

mod admin;
mod claim;
mod commit;
mod copies;
mod crowd;
mod damage;
mod discovery;
mod due;
mod events;
mod fairness;
mod lease;
mod machine;
mod model;
mod moves;
mod outbox;
mod pauses;
mod raw;
pub(crate) mod ready;
mod schedule;
mod slots;
mod sources;
mod submit;
mod takedown;
mod times;
mod told;
mod trial;

use async_trait::async_trait;
use feedmill::clock::Clock;
use feedmill::db::{Connection, Db, OwnTime, PgDb, PgLimits};
use feedmill::frontier::Rules;
use feedmill::model::{Kind, Status};
use feedmill::store::{PgStore, SqliteStore, Store};
use futures_util::future::BoxFuture;
use tempfile::TempDir;

use trial::Trial;

use crate::postgres::{Database, apart, connect, database};

/// Opens an empty backend.
type Open = fn(Clock, Rules) -> BoxFuture<'static, Trial>;

/// What the cases need beyond the two traits.
#[async_trait]
trait Backend: Send + Sync {
    /// What an engine does when it starts after one that was killed.
    async fn recover(&self);

    /// Where every task is, read past the traits.
    fn standings(&self) -> Vec<Standing>;

    /// Changes rows past the traits, as a fault of the disk would.
    async fn spoil(&self, sql: &str);
}

/// Where a task is in the backend's own tables.
#[derive(Clone, Debug)]
struct Standing {
    task: i64,
    kind: Kind,
    status: Status,
    queued: bool,
    delayed: bool,
    leased: bool,
}

struct Sqlite {
    store: SqliteStore,
    dir: TempDir,
}

fn sqlite(clock: Clock, rules: Rules) -> BoxFuture<'static, Trial> {
    Box::pin(async move {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("feedmill.db")).unwrap();
        let store = SqliteStore::new(db, clock.clone(), rules);
        let backend = Sqlite { store: store.clone(), dir };
        Trial::new(std::sync::Arc::new(store), clock, Box::new(backend))
    })
}

#[async_trait]
impl Backend for Sqlite {
    async fn recover(&self) {
        self.store.frontier().free_leases().await.unwrap();
    }

    async fn spoil(&self, sql: &str) {
        let conn = Connection::open(self.dir.path().join("feedmill.db")).unwrap();
        conn.execute_batch(sql).unwrap();
    }

    fn standings(&self) -> Vec<Standing> {
        let conn = Connection::open(self.dir.path().join("feedmill.db")).unwrap();
        let mut select = conn
            .prepare(
                "SELECT t.id, t.kind, t.status,
                   EXISTS(SELECT 1 FROM queue q WHERE q.task_id = t.id AND q.host_id = t.host_id
                     AND q.lane = t.lane AND q.nprio = 10 - t.prio AND q.due = t.due),
                   EXISTS(SELECT 1 FROM delayed d WHERE d.task_id = t.id AND d.due = t.due),
                   EXISTS(SELECT 1 FROM host h WHERE h.id = t.host_id AND h.lease_task = t.id)
                 FROM task t ORDER BY t.id",
            )
            .unwrap();
        let rows = select.query_map([], |row| {
            Ok(Standing {
                task: row.get(0)?,
                kind: Kind::from_number(row.get(1)?).unwrap(),
                status: Status::from_number(row.get(2)?).unwrap(),
                queued: row.get(3)?,
                delayed: row.get(4)?,
                leased: row.get(5)?,
            })
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }
}

struct Postgres {
    store: PgStore,
    database: Database,
}

fn postgres(clock: Clock, rules: Rules) -> BoxFuture<'static, Trial> {
    Box::pin(open_postgres(clock, rules, PgLimits::default()))
}

/// The same with one connection: whoever holds one and asks for a second fails.
fn postgres_with_one_connection(clock: Clock, rules: Rules) -> BoxFuture<'static, Trial> {
    let acquire_timeout = std::time::Duration::from_secs(15);
    let limits = PgLimits { connections: 1, acquire_timeout, ..PgLimits::default() };
    Box::pin(open_postgres(clock, rules, limits))
}

async fn open_postgres(clock: Clock, rules: Rules, limits: PgLimits) -> Trial {
    let database = database().await.expect("asked for before the case began");
    // The machine's time is the server's.
    let reading = clock.clone();
    let own = (!clock.is_system()).then(|| OwnTime::new(move || reading.now().ms()));
    let db = PgDb::open_with(&database.url, own, limits).await.unwrap();
    let store = PgStore::new(db, rules);
    let backend = Postgres { store: store.clone(), database };
    Trial::new(std::sync::Arc::new(store), clock, Box::new(backend))
}

#[async_trait]
impl Backend for Postgres {
    async fn recover(&self) {
        self.store.frontier().free_leases().await.unwrap();
    }

    async fn spoil(&self, sql: &str) {
        connect(&self.database.url).await.batch_execute(sql).await.unwrap();
    }

    fn standings(&self) -> Vec<Standing> {
        let url = self.database.url.clone();
        let rows = apart(async move {
            let client = connect(&url).await;
            let sql = "SELECT t.id, t.kind, t.status,
                   EXISTS(SELECT 1 FROM queue q WHERE q.task_id = t.id AND q.host_id = t.host_id
                     AND q.lane = t.lane AND q.nprio = 10 - t.prio AND q.due = t.due),
                   EXISTS(SELECT 1 FROM delayed d WHERE d.task_id = t.id AND d.due = t.due),
                   EXISTS(SELECT 1 FROM host h WHERE h.queue_id = t.host_id AND h.lease_task = t.id)
                 FROM task t ORDER BY t.id";
            client.query(sql, &[]).await.unwrap()
        });
        let standing = |row: &tokio_postgres::Row| Standing {
            task: row.get(0),
            kind: Kind::from_number(row.get::<_, i16>(1).into()).unwrap(),
            status: Status::from_number(row.get::<_, i16>(2).into()).unwrap(),
            queued: row.get(3),
            delayed: row.get(4),
            leased: row.get(5),
        };
        rows.iter().map(standing).collect()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let store = self.store.clone();
        apart(async move { store.close().await });
    }
}

/// All cases on one backend. A case that is not listed here is dead code, and the build says so.
macro_rules! contract {
    ($backend:ident if $ready:ident) => {
        contract!(@ $backend $ready
            submit {
                a_report_counts_new_known_raised_and_rejected,
                spellings_of_one_address_are_one_task,
                an_address_is_one_task_per_lane,
                priority_only_rises,
                priority_stands_still_while_a_task_is_under_way,
                what_is_done_or_given_up_is_not_queued_again,
                what_recurs_and_was_over_returns_when_it_is_named_again,
                the_dead_return_after_a_month_unless_the_reason_is_final,
                malformed_addresses_among_a_thousand_are_rejected_one_by_one,
                an_earlier_wish_moves_a_waiting_page_forward,
                a_failed_page_keeps_its_wait_whoever_gives_it_again,
                a_feed_keeps_its_rhythm_whoever_gives_it_again,
                a_fetched_page_is_asked_for_again_only_after_a_change,
            }
            fairness {
                a_wildcard_domain_leaves_workers_to_others,
                a_source_with_hosts_everywhere_leaves_workers_to_others,
                who_is_fast_gets_what_nobody_else_wants,
                slow_sites_hold_half_of_the_workers_together,
                pages_leave_workers_to_polls,
                a_quarter_of_the_workers_is_kept_for_fast_sites,
                a_host_that_changes_hands_is_not_forgotten,
                a_source_over_its_quota_gets_nothing_until_the_next_day,
            }
            claim {
                the_highest_priority_goes_first,
                newcomers_do_not_overtake_who_waits_longest,
                the_oldest_due_goes_first_within_a_host,
                a_claim_hands_out_at_most_what_was_asked_each_on_another_host,
                a_host_has_one_live_lease,
                the_pause_counts_from_completion,
                a_request_that_was_not_made_costs_no_pause,
                nothing_is_handed_out_while_a_host_is_blocked,
                lifting_a_block_leaves_the_pause_that_the_host_wants,
                only_the_lanes_asked_for_are_served,
                polls_take_every_second_slot_while_pages_wait,
                robots_goes_first_when_missing_or_stale_and_once,
                feeds_need_no_robots_unless_the_rule_says_so,
                every_origin_has_its_own_robots,
                an_unreachable_robots_holds_up_its_origin_only,
                a_crawl_delay_is_kept_from_the_answer_that_told_it,
                a_source_sets_the_pace_of_its_hosts,
                a_pace_goes_with_the_source_that_asked_for_it,
            }
            commit {
                fetched_is_the_end,
                again_comes_back_at_its_time,
                retry_counts_until_it_goes_well,
                what_a_server_asks_for_is_counted_alone,
                postpone_does_not_count,
                dead_keeps_its_code,
                validators_come_back_with_the_next_lease,
                found_addresses_are_in_the_frontier_with_the_commit,
                the_address_that_answered_instead_is_done_as_well,
                a_complaint_doubles_the_pause_and_blocks,
                a_quiet_host_is_asked_faster_again,
                a_decision_on_an_old_feed_state_conflicts_and_changes_nothing,
                an_entry_is_found_by_its_id_or_else_by_page_and_date,
                one_bad_outcome_of_a_batch_falls_alone,
                blocks_that_repeat_on_a_host_are_learned_from_new_articles,
            }
            pauses {
                a_pause_is_shown_with_its_end_and_who_asked_for_it,
                clearing_a_pace_ends_what_responses_asked_for,
                clearing_a_pace_leaves_the_operators_blocks,
            }
            schedule {
                vitals_tell_of_channels_sources_and_hosts,
                promises_are_counted_from_all_requests_of_a_day,
                what_is_remembered_of_a_channel_comes_back,
                who_told_of_a_page_first_is_counted,
                the_price_and_what_it_follows_from_are_kept,
                feeds_that_were_never_polled_are_counted,
            }
            times {
                a_feed_that_was_polled_by_a_clock_years_ahead_is_polled_again,
                a_document_that_was_read_by_a_clock_ahead_is_read_again,
                leases_and_pauses_of_a_clock_years_ahead_end,
                what_was_asked_for_or_set_is_left_alone,
                a_clock_that_is_set_back_by_hours_does_not_hold_work_up,
                leases_that_are_meant_to_last_for_days_are_left_alone,
            }
            lease {
                a_stale_lease_changes_nothing,
                a_stale_lease_changes_nothing_through_a_lent_host,
                a_late_answer_counts_until_somebody_else_has_the_task,
                a_host_rests_after_a_lease_that_ran_out,
                a_lease_outlasts_the_block_of_its_host,
                a_lease_left_on_a_parked_task_ends,
                strikes_put_a_task_off_for_longer_and_longer,
                whoever_names_a_struck_task_again_does_not_bring_it_forward,
                a_crash_is_a_strike_for_each_lease_that_was_left,
                five_leases_that_ran_out_are_poison,
                the_log_tells_once_of_what_was_poison,
                the_end_of_a_poisoned_task_frees_its_host,
                an_answer_forgives_earlier_strikes,
                a_poison_feed_is_counted_by_itself_while_pages_are_served,
                renewal_makes_a_lease_last,
                a_second_host_is_granted_and_both_get_their_pause,
                a_blocked_host_is_not_lent,
                a_busy_host_is_not_lent,
                advice_goes_to_the_host_that_answered,
                after_a_crash_everything_is_handed_out_again_after_the_pause,
            }
            slots {
                a_host_with_three_slots_takes_three_at_a_time,
                every_page_of_a_host_with_slots_is_served_once,
                a_complaint_holds_for_all_slots,
                an_operator_may_give_and_take_slots,
                a_free_slot_serves_pages_while_a_poll_is_under_way,
                a_slot_that_is_one_too_many_keeps_its_task,
                hosts_of_a_group_share_one_slot,
                who_waits_longest_is_served_however_low,
                a_lease_that_runs_out_on_any_slot_comes_back,
            }
            sources {
                a_source_that_is_added_again_gets_its_pages_back,
                what_nobody_owned_belongs_to_the_first_source_that_gives_it,
                a_channel_that_was_given_up_returns_on_the_operators_word,
                a_channel_that_is_only_probed_is_asked_on_the_operators_word,
                names_are_unique,
                how_a_source_is_asked_can_be_changed,
                what_a_source_says_of_its_channels_can_be_changed,
                a_source_that_is_only_walked_is_not_polled,
                what_an_operator_names_goes_before_what_a_walk_came_upon,
                what_two_sources_share_carries_both_labels,
                a_source_may_come_in_disabled_or_later,
                disabling_parks_and_enabling_resumes,
                an_heir_takes_over,
                a_parked_task_goes_to_the_first_source_that_is_enabled,
                a_parked_task_rises_with_a_new_source,
                what_a_disabled_source_gives_is_parked,
                a_task_under_way_is_parked_when_it_comes_back,
                robots_is_nobodys_task,
                removing_a_source_keeps_its_articles,
                articles_are_taken_back_with_their_source,
                what_is_set_at_run_time_is_kept_until_it_is_forgotten,
            }
            events {
                an_entry_is_new_once_and_updated_when_it_changes,
                an_article_is_new_then_updated,
                the_same_text_elsewhere_is_a_duplicate,
                the_log_is_strictly_increasing_and_read_from_any_place,
                the_same_facts_twice_give_no_second_event,
                sources_leave_their_trace,
                an_entry_is_deleted_once_until_it_is_there_again,
                the_log_is_read_by_kind_time_source_and_from_its_end,
            }
            outbox {
                a_sink_begins_where_it_is_told_and_stays_where_it_is,
                one_process_delivers_at_a_time,
                what_was_under_way_when_a_sink_was_put_elsewhere_is_void,
                dead_letters_are_kept_until_they_arrive_or_are_given_up,
                the_log_is_trimmed_up_to_a_place_and_never_reuses_one,
                what_events_are_about_is_joined_at_once,
            }
            damage {
                damaged_rows_are_told_and_the_others_are_read,
                what_is_read_again_restores_rows_and_sends_their_events,
                what_a_fetch_brings_takes_the_place_of_a_damaged_row,
            }
            copies {
                the_same_words_at_several_publishers_are_one_cluster,
                copies_of_one_batch_find_each_other,
                an_index_finds_a_copy_among_many_others,
                a_text_whose_first_article_changed_still_has_its_copies,
                a_change_keeps_the_form_before_it,
                a_silent_edit_is_told,
                a_thin_page_leaves_the_text_and_is_told_once,
                what_is_read_again_keeps_the_form_before_it,
            }
            due {
                nothing_is_due_in_an_empty_frontier,
                due_work_is_announced_and_handed_out,
                a_pause_is_waited_out_to_the_millisecond,
                a_waiting_task_is_announced_for_its_time,
                other_lanes_are_not_announced,
                many_of_other_lanes_are_passed_in_a_few_steps,
                a_blocked_host_is_no_work,
                submission_and_completion_wake_whoever_waits,
            }
            admin {
                every_state_is_found_by_its_name,
                pages_of_any_order_leave_nothing_out,
                what_is_deleted_between_two_pages_moves_nothing,
                the_dead_are_tried_again,
                a_retry_spares_what_is_under_way_or_set_aside,
                a_dead_page_of_a_disabled_source_stays_dead,
                what_waits_keeps_its_place_when_it_is_tried_again,
                deleting_leaves_no_trace_in_the_queue,
                a_lease_outlives_every_attempt_to_delete_its_task,
                what_was_read_outlives_its_task,
                the_channels_of_a_source_are_not_deleted,
                a_purge_takes_the_old_a_stretch_at_a_time,
                shares_are_counted_by_source_and_host,
                a_host_tells_its_pause_and_who_asks_for_it,
                an_operators_pause_is_kept_whatever_others_say,
                a_block_without_end_is_lifted_by_hand,
                hosts_are_listed_by_name_page_by_page,
            }
            moves {
                a_feed_takes_its_new_address_with_all_that_it_is,
                an_address_that_another_task_has_is_not_taken,
                a_move_that_is_under_way_is_remembered,
                what_robots_ruled_out_returns_when_new_rules_allow_it,
                what_nobody_follows_stays_ruled_out,
            }
            discovery {
                a_source_without_channels_has_its_home_page_looked_at,
                a_search_is_kept_and_what_it_finds_becomes_a_channel,
                what_was_only_looked_at_is_what_somebody_says_it_is,
                one_task_is_handed_out_before_all_others,
            }
            raw {
                fetches_are_found_by_what_is_asked_for,
                the_last_documents_of_a_feed_are_needed,
                bytes_move_and_are_forgotten,
                what_is_read_again_changes_once_and_no_task,
            }
            told {
                every_channel_that_told_of_an_address_is_kept_with_its_first_time,
                one_batch_may_tell_of_an_address_many_times,
                what_lists_and_the_spider_ask_is_answered,
                a_page_that_leads_on_rises_by_need_and_else_after_a_week,
            }
            takedown {
                an_address_goes_with_all_that_is_known_of_it,
                damaged_rows_go_as_well,
                what_is_refused_no_more_can_come_again,
                what_is_under_way_is_turned_away,
                a_host_goes_with_all_below_it,
                a_source_goes_with_all_that_it_owns,
            }
            crowd { twenty_workers_do_every_address_once, }
        );
    };
    (@ $backend:ident $ready:ident $($area:ident { $($case:ident,)+ })+) => {
        mod $backend {
            $(mod $area {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    if super::super::$ready().await {
                        super::super::$area::$case(super::super::$backend).await;
                    }
                })+
            })+
        }
    };
}

async fn always() -> bool {
    true
}

async fn with_server() -> bool {
    database().await.is_some()
}

contract!(sqlite if always);
contract!(postgres if with_server);
contract!(postgres_with_one_connection if with_server);

/// Cases that take long, and do nothing that the others do not do with a single connection.
mod long_tests {
    use super::*;

    contract!(@ sqlite always machine { any_sequence_of_steps_agrees_with_the_model, });
    contract!(@ postgres with_server machine { any_sequence_of_steps_agrees_with_the_model, });
}
