-- Of the last hello that was taken; 0: it was not numbered.
ALTER TABLE sessions ADD COLUMN hello_number bigint NOT NULL DEFAULT 0;
