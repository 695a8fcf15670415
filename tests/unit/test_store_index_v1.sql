-- SPDX-License-Identifier: Apache-2.0
-- The index of version 0.1.0, with one run (sqlite3 .dump).
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE runs (
  id VARCHAR(36) NOT NULL,
  label TEXT NOT NULL,
  study TEXT NOT NULL,
  target TEXT NOT NULL,
  state TEXT NOT NULL,
  started TEXT NOT NULL,
  duration_s FLOAT NOT NULL,
  steps INTEGER NOT NULL,
  headline TEXT NOT NULL,
  changed_ns BIGINT NOT NULL,
  size BIGINT NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO "runs" VALUES('01a1fbdd-f43e-715c-b304-6dadfc6c46ef','a label','s','local','complete','2025-11-21T01:02:03Z',0.0,2,'timer latency: max 13.6 us of 42',1795226989722393491,517);
COMMIT;
