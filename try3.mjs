import pg from "pg";
import { startEmbeddedPostgres } from "trunkline";
const pgs = await startEmbeddedPostgres({ dataDir: "/tmp/try-pg" });
const c = new pg.Client(pgs.url); await c.connect();
for (const s of ["ALTER SYSTEM SET session_preload_libraries='auto_explain'","ALTER SYSTEM SET auto_explain.log_min_duration='15ms'","ALTER SYSTEM SET auto_explain.log_analyze=on","ALTER SYSTEM SET auto_explain.log_buffers=on","select pg_reload_conf()"]) await c.query(s);
console.log((await c.query("select count(*), state from runs group by state")).rows, (await c.query("select id, state, due_at, ended_at, now() from runs where due_at is not null")).rows, (await c.query("select count(*), state, min(due_at) from calls group by state")).rows);
await c.end(); await pgs.stop();
