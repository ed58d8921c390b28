import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.iceberg.IcebergOptions;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.operation.FileStoreScan;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.stats.ColStats;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.sink.TableWrite;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.ScanMode;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * Paimon's own library behind a pipe: one JSON request a line in, one JSON answer a line out.
 *
 * <p>Driven by tests/support/judges/paimon_java.py. Rows travel through the file named by "out", a JSON
 * array a line. A request that fails is answered with {"error": …} and the next one is served.
 * Catalogs are opened again for each request and never cache, so that every answer is what the disk
 * says now.
 */
public final class PaimonServer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TEMP_DIR = System.getProperty("java.io.tmpdir");

    private PaimonServer() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not end up among the answers
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println(JSON.createObjectNode().put("ready", true));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer;
            try {
                answer = serve(JSON.readTree(line));
            } catch (Throwable error) {
                answer = JSON.createObjectNode().set("error", describe(error));
            }
            answers.println(answer);
        }
    }

    private static ObjectNode serve(JsonNode request) throws Exception {
        String command = request.get("command").asText();
        switch (command) {
            case "create":
                return create(request);
            case "list_tables":
                return listTables(request);
            case "read":
                return read(request);
            case "changelog":
                return changelog(request);
            case "write":
                return write(request);
            case "batch_write":
                return batchWrite(request);
            case "compact":
                return compact(request);
            case "hashes":
                ObjectNode index = JSON.createObjectNode();
                DynamicBuckets.list(storeTable(request), index.putArray("buckets"));
                return index;
            case "delete_rows":
                FileStoreTable table = storeTable(request);
                RowDeletion.commit(table, request.get("deleted"));
                return latest(table);
            case "expire":
                return expire(request);
            case "alter":
                return alter(request);
            case "tag":
                FileStoreTable tagged = storeTable(request);
                tagged.createTag(request.get("name").asText(), request.get("snapshot").asLong());
                return latest(tagged);
            case "types":
                ObjectNode described = JSON.createObjectNode();
                for (DataField column : table(request).rowType().getFields()) {
                    String type = column.type().asSQLString();
                    described.withArray("types").addArray().add(column.name()).add(type);
                }
                return described;
            case "adopt":
                try (Catalog catalog = catalog(request)) {
                    if (present(request, "folder")) {
                        catalog.createDatabase(request.get("database").asText(), true);
                        catalog.registerTable(
                                identifier(request), request.get("folder").asText());
                    } else {
                        catalog.repairTable(identifier(request));
                    }
                }
                return JSON.createObjectNode();
            case "comments":
                ObjectNode comments = JSON.createObjectNode();
                Table commented = table(request);
                comments.put("", commented.comment().orElse(null));
                for (DataField column : commented.rowType().getFields()) {
                    comments.put(column.name(), column.description());
                }
                return comments;
            case "statistics":
                return statistics(request);
            case "column_statistics":
                return columnStatistics(request);
            case "branch":
                FileStoreTable branched = storeTable(request);
                branched.createBranch(
                        request.get("name").asText(), request.get("tag").asText());
                return latest(branched);
            case "rollback":
                return rollback(request);
            case "snapshots":
                return snapshots(request);
            case "files":
                return files(request);
            case "options":
                return options(request);
            case "definitions":
                ObjectNode judged = JSON.createObjectNode();
                ArrayNode problems = judged.putArray("problems");
                for (JsonNode definition : request.get("definitions")) {
                    Definitions.judge(definition(definition), problems);
                }
                return judged;
            case "set_values":
                return setValues(request);
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private static ObjectNode describe(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        ArrayNode trace = JSON.createArrayNode();
        for (int i = 0; i < Math.min(8, root.getStackTrace().length); i++) {
            trace.add(root.getStackTrace()[i].toString());
        }
        ObjectNode node = JSON.createObjectNode();
        node.put("class", error.getClass().getName()).put("message", error.getMessage());
        node.put("root_class", root.getClass().getName()).put("root_message", root.getMessage());
        return node.set("trace", trace);
    }

    // ---------------------------------------------------------------- tables

    private static Catalog catalog(JsonNode request) {
        Options options = new Options();
        options.set("warehouse", request.get("warehouse").asText());
        options.set("cache-enabled", "false");
        if (present(request, "catalog")) {
            strings(request.get("catalog")).forEach(options::set);
        }
        return CatalogFactory.createCatalog(CatalogContext.create(options));
    }

    private static Identifier identifier(JsonNode request) {
        return Identifier.create(request.get("database").asText(), request.get("table").asText());
    }

    private static Table table(JsonNode request) throws Exception {
        try (Catalog catalog = catalog(request)) {
            Table table = catalog.getTable(identifier(request));
            Map<String, String> options = strings(request.get("options"));
            if (present(request, "latest_schema")) { // as Flink's streaming jobs read
                return ((FileStoreTable) table).copyWithoutTimeTravel(options);
            }
            return options.isEmpty() ? table : table.copy(options);
        }
    }

    private static FileStoreTable storeTable(JsonNode request) throws Exception {
        return (FileStoreTable) table(request);
    }

    private static Schema definition(JsonNode request) {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : request.get("columns")) {
            schema.column(
                    column.get(0).asText(), DataTypeJsonParser.parseDataType(column.get(1)));
        }
        schema.primaryKey(texts(request.get("primary_keys")));
        schema.partitionKeys(texts(request.get("partition_keys")));
        return schema.options(strings(request.get("options"))).build();
    }

    private static ObjectNode create(JsonNode request) throws Exception {
        try (Catalog catalog = catalog(request)) {
            catalog.createDatabase(request.get("database").asText(), true);
            catalog.createTable(identifier(request), definition(request), false);
        }
        return JSON.createObjectNode();
    }

    private static ObjectNode listTables(JsonNode request) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        try (Catalog catalog = catalog(request)) {
            for (String database : catalog.listDatabases()) {
                ArrayNode tables = answer.putArray(database);
                catalog.listTables(database).forEach(tables::add);
            }
        }
        return answer;
    }

    /** Changes as ["add", name, type], ["type", name, type], ["rename", old, new], ["drop", name]. */
    private static ObjectNode alter(JsonNode request) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : request.get("changes")) {
            String name = change.get(1).asText();
            String[] path = name.split("\\.");
            switch (change.get(0).asText()) {
                case "add":
                    changes.add(
                            SchemaChange.addColumn(
                                    path,
                                    DataTypeJsonParser.parseDataType(change.get(2)),
                                    null,
                                    null));
                    break;
                case "type":
                    changes.add(
                            SchemaChange.updateColumnType(
                                    path, DataTypeJsonParser.parseDataType(change.get(2)), false));
                    break;
                case "default":
                    changes.add(
                            SchemaChange.updateColumnDefaultValue(
                                    new String[] {name}, change.get(2).asText()));
                    break;
                case "option":
                    changes.add(SchemaChange.setOption(name, change.get(2).asText()));
                    break;
                case "rename":
                    changes.add(SchemaChange.renameColumn(path, change.get(2).asText()));
                    break;
                case "drop":
                    changes.add(SchemaChange.dropColumn(path));
                    break;
                default:
                    throw new IllegalArgumentException("unknown change " + change);
            }
        }
        try (Catalog catalog = catalog(request)) {
            catalog.alterTable(identifier(request), changes, false);
        }
        return JSON.createObjectNode();
    }

    // ---------------------------------------------------------------- reading

    private static ObjectNode read(JsonNode request) throws Exception {
        Table table = table(request);
        if (present(request, "snapshot")) {
            table = table.copy(
                    Collections.singletonMap("scan.snapshot-id", request.get("snapshot").asText()));
        }
        ReadBuilder builder = table.newReadBuilder();
        RowType type = table.rowType();
        if (present(request, "columns")) {
            List<String> columns = texts(request.get("columns"));
            builder.withProjection(columns.stream().mapToInt(type.getFieldNames()::indexOf).toArray());
        }
        if (present(request, "filter")) {
            builder.withFilter(predicate(request.get("filter"), type));
        }
        List<Split> splits = builder.newScan().plan().splits();
        ObjectNode answer = JSON.createObjectNode();
        answer.set("columns", columns(builder.readType()));
        ArrayNode splitNodes = answer.putArray("splits");
        for (Split split : splits) {
            splitNodes.add(describe(split, table));
        }
        try (BufferedWriter out = Files.newBufferedWriter(Paths.get(request.get("out").asText()))) {
            TableRead reader = builder.newRead().withIOManager(IOManager.create(TEMP_DIR));
            try (RecordReader<InternalRow> rows = reader.executeFilter().createReader(splits)) {
                RowType readType = builder.readType();
                rows.forEachRemaining(row -> line(out, Values.encodeRow(row, readType)));
            }
        }
        return answer;
    }

    /** Equality by plain value, IS NULL by null, IN by list, else {"op": "<", "value": v}. */
    private static Predicate predicate(JsonNode filter, RowType type) {
        PredicateBuilder builder = new PredicateBuilder(type);
        List<Predicate> all = new ArrayList<>();
        Iterator<Map.Entry<String, JsonNode>> conditions = filter.fields();
        while (conditions.hasNext()) {
            Map.Entry<String, JsonNode> condition = conditions.next();
            int index = builder.indexOf(condition.getKey());
            if (index < 0) {
                throw new IllegalArgumentException("no column " + condition.getKey());
            }
            all.add(condition(builder, index, condition.getValue(), type));
        }
        return PredicateBuilder.and(all);
    }

    private static Predicate condition(
            PredicateBuilder builder, int index, JsonNode wanted, RowType type) {
        if (wanted.isNull()) {
            return builder.isNull(index);
        }
        if (wanted.isArray()) {
            List<Object> values = new ArrayList<>();
            wanted.forEach(value -> values.add(Values.decode(value, type.getTypeAt(index))));
            return builder.in(index, values);
        }
        if (!wanted.isObject()) {
            return builder.equal(index, Values.decode(wanted, type.getTypeAt(index)));
        }
        Object value = Values.decode(wanted.get("value"), type.getTypeAt(index));
        switch (wanted.get("op").asText()) {
            case "<":
                return builder.lessThan(index, value);
            case "<=":
                return builder.lessOrEqual(index, value);
            case ">":
                return builder.greaterThan(index, value);
            case ">=":
                return builder.greaterOrEqual(index, value);
            case "!=":
                return value == null ? builder.isNotNull(index) : builder.notEqual(index, value);
            default:
                throw new IllegalArgumentException("unknown operator in " + wanted);
        }
    }

    private static ObjectNode changelog(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        TableRead reader = builder.newRead().withIOManager(IOManager.create(TEMP_DIR));
        ObjectNode answer = JSON.createObjectNode();
        answer.set("columns", columns(type));
        ArrayNode plans = answer.putArray("plans");
        try (BufferedWriter out = Files.newBufferedWriter(Paths.get(request.get("out").asText()))) {
            Long before = null;
            while (true) {
                TableScan.Plan plan = scan.plan();
                Long next = scan.checkpoint();
                if (plan.splits().isEmpty()) {
                    if (isDrained(table, before, next)) {
                        scan.notifyCheckpointComplete(next); // a consumer's progress, if there is one
                        return answer;
                    }
                } else {
                    long snapshot = ((DataSplit) plan.splits().get(0)).snapshotId();
                    ArrayNode head = JSON.createArrayNode().add(snapshot);
                    plans.add(snapshot);
                    try (RecordReader<InternalRow> rows = reader.createReader(plan)) {
                        rows.forEachRemaining(row -> line(out, change(head, row, type)));
                    }
                }
                before = next;
            }
        }
    }

    private static boolean isDrained(FileStoreTable table, Long before, Long next) {
        Long latest = table.snapshotManager().latestSnapshotId();
        return latest == null || next == null || next > latest || next.equals(before);
    }

    private static ArrayNode change(ArrayNode head, InternalRow row, RowType type) {
        ArrayNode change = head.deepCopy().add(row.getRowKind().shortString());
        return change.addAll(Values.encodeRow(row, type));
    }

    // ---------------------------------------------------------------- writing

    private static ObjectNode write(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        long identifier = request.get("identifier").asLong();
        StreamWriteBuilder builder =
                table.newStreamWriteBuilder().withCommitUser(request.get("commit_user").asText());
        try (StreamTableWrite write = builder.newWrite();
                StreamTableCommit commit = builder.newCommit()) {
            writeRows(table, write, request, false);
            List<CommitMessage> messages =
                    write.prepareCommit(request.get("wait_compaction").asBoolean(), identifier);
            if (request.get("recover").asBoolean()) {
                commit.filterAndCommit(Collections.singletonMap(identifier, messages));
            } else {
                commit.commit(identifier, messages);
            }
        }
        return latest(table);
    }

    private static ObjectNode batchWrite(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (request.get("overwrite").asBoolean()) {
            builder.withOverwrite();
        }
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            writeRows(table, write, request, request.get("overwrite").asBoolean());
            commit.commit(write.prepareCommit());
        }
        return latest(table);
    }

    private static void writeRows(
            FileStoreTable table, TableWrite write, JsonNode request, boolean overwrite)
            throws Exception {
        DynamicBuckets buckets =
                table.bucketMode() == BucketMode.HASH_DYNAMIC
                        ? new DynamicBuckets(table, "java", overwrite)
                        : null;
        IOManager disk = IOManager.create(TEMP_DIR);
        write.withIOManager(disk);
        Map<String, RowKind> kinds = new HashMap<>();
        for (RowKind kind : RowKind.values()) {
            kinds.put(kind.shortString(), kind);
        }
        try (BufferedReader lines =
                        Files.newBufferedReader(Paths.get(request.get("rows").asText()));
                CrossPartitionRows rows = new CrossPartitionRows(table, write, disk)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode kindAndRow = JSON.readTree(line);
                GenericRow row = Values.decodeRow(kindAndRow.get(1), table.rowType());
                row.setRowKind(kinds.get(kindAndRow.get(0).asText()));
                if (buckets == null) {
                    rows.write(row);
                } else {
                    write.write(row, buckets.bucket(row));
                }
            }
        }
    }

    private static ObjectNode compact(JsonNode request) throws Exception {
        FileStoreTable table =
                storeTable(request).copy(Collections.singletonMap("write-only", "false"));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            return compactUnaware(table, builder);
        }
        Map<Object, ManifestEntry> buckets = new LinkedHashMap<>();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            buckets.putIfAbsent(List.of(entry.partition(), entry.bucket()), entry);
        }
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(TEMP_DIR));
            for (ManifestEntry entry : buckets.values()) {
                write.compact(entry.partition(), entry.bucket(), request.get("full").asBoolean());
            }
            commit.commit(write.prepareCommit());
        }
        return latest(table).put("buckets", buckets.size());
    }

    /** As Paimon's own engines do for a table without buckets: one round of the coordinator. */
    private static ObjectNode compactUnaware(FileStoreTable table, BatchWriteBuilder builder)
            throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        BaseAppendFileStoreWrite write = ((AppendOnlyFileStore) table.store()).newWrite("compact");
        try (BatchTableCommit commit = builder.newCommit()) {
            for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                messages.add(task.doCompact(table, write));
            }
            commit.commit(messages);
        } finally {
            write.close();
        }
        return latest(table).put("tasks", messages.size());
    }

    private static ObjectNode expire(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        ExpireConfig config =
                ExpireConfig.builder()
                        .snapshotRetainMax(request.get("retain_max").asInt())
                        .snapshotRetainMin(request.get("retain_min").asInt())
                        .snapshotTimeRetain(Duration.ofMillis(request.get("time_ms").asLong()))
                        .build();
        if (request.get("by_options").asBoolean()) {
            config = table.coreOptions().expireConfig();
        }
        int expired = table.newExpireSnapshots().config(config).expire();
        if (config.isChangelogDecoupled()) {
            table.newExpireChangelog().config(config).expire();
        }
        return latest(table).put("expired", expired);
    }

    private static ObjectNode statistics(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        DataField first = table.rowType().getFields().get(0);
        Map<String, ColStats<?>> ofColumns =
                Map.of(first.name(), ColStats.newColStats(first.id(), 3L, null, null, 1L, 4L, 8L));
        long snapshot = table.snapshotManager().latestSnapshotId();
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.updateStatistics(
                    new Statistics(snapshot, table.schema().id(), 6L, 100L, ofColumns));
        }
        return latest(table);
    }

    private static ObjectNode columnStatistics(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        Statistics statistics = table.statistics().orElse(null);
        ObjectNode answer = JSON.createObjectNode();
        if (statistics == null) {
            return answer;
        }
        answer.put("snapshot", statistics.snapshotId()).put("schema", statistics.schemaId());
        answer.put("rows", statistics.mergedRecordCount().getAsLong());
        answer.put("bytes", statistics.mergedRecordSize().getAsLong());
        ObjectNode columns = answer.putObject("columns");
        for (DataField field : table.rowType().getFields()) {
            ColStats<?> known = statistics.colStats().get(field.name());
            if (known == null) {
                continue;
            }
            RowType bounds =
                    RowType.of(
                            new DataType[] {field.type().nullable(), field.type().nullable()},
                            new String[] {"min", "max"});
            GenericRow values =
                    GenericRow.of(known.min().orElse(null), known.max().orElse(null));
            ObjectNode column = Values.encodeNamed(values, bounds);
            column.put("id", known.colId());
            known.distinctCount().ifPresent(count -> column.put("distinct", count));
            known.nullCount().ifPresent(count -> column.put("nulls", count));
            known.avgLen().ifPresent(length -> column.put("average", length));
            known.maxLen().ifPresent(length -> column.put("longest", length));
            columns.set(field.name(), column);
        }
        return answer;
    }

    private static ObjectNode rollback(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        if (request.hasNonNull("tag")) {
            table.rollbackTo(request.get("tag").asText());
        } else {
            table.rollbackTo(request.get("snapshot").asLong());
        }
        return latest(table);
    }

    private static ObjectNode latest(FileStoreTable table) {
        return JSON.createObjectNode().put("snapshot", table.snapshotManager().latestSnapshotId());
    }

    // ---------------------------------------------------------------- metadata

    private static ObjectNode setValues(JsonNode request) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        String function = request.get("function").asText();
        for (JsonNode numbers : request.get("made")) {
            answer.withArray("made")
                    .add(SetValues.of(function, JSON.convertValue(numbers, long[].class)));
        }
        for (JsonNode value : request.get("described")) {
            answer.withArray("described").add(SetValues.described(function, value.binaryValue()));
        }
        return answer;
    }

    /** Every option of tables: its default, its older keys, and how it reads given texts. */
    private static ObjectNode options(JsonNode request) throws Exception {
        Map<String, ConfigOption<?>> known = new LinkedHashMap<>();
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode described = answer.putArray("options");
        List<Field> fields = new ArrayList<>(List.of(CoreOptions.class.getFields()));
        fields.addAll(List.of(IcebergOptions.class.getFields()));
        for (Field field : fields) {
            if (!ConfigOption.class.isAssignableFrom(field.getType())) {
                continue;
            }
            ConfigOption<?> option = (ConfigOption<?>) field.get(null);
            known.put(option.key(), option);
            ObjectNode node = described.addObject();
            node.put("type", field.getGenericType().getTypeName().replaceAll("^.*[<.](\\w+)>$", "$1"));
            node.put("key", option.key()).put("default", plain(option.defaultValue()));
            node.put("is_fixed", CoreOptions.IMMUTABLE_OPTIONS.contains(option.key()));
            ArrayNode older = node.putArray("older_keys");
            option.fallbackKeys().forEach(key -> older.add(key.getKey()));
        }
        ArrayNode values = answer.putArray("values");
        for (JsonNode pair : request.get("texts")) {
            Options options = new Options();
            options.set(pair.get(0).asText(), pair.get(1).asText());
            try {
                values.add(plain(options.get(known.get(pair.get(0).asText()))));
            } catch (IllegalArgumentException refused) {
                values.addNull();
            }
        }
        return answer;
    }

    private static String plain(Object value) {
        if (value instanceof MemorySize) {
            return String.valueOf(((MemorySize) value).getBytes());
        }
        if (value instanceof Duration) {
            return String.valueOf(((Duration) value).toMillis());
        }
        return value == null ? null : value.toString();
    }

    private static ObjectNode snapshots(JsonNode request) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode nodes = answer.putArray("snapshots");
        for (Snapshot snapshot : storeTable(request).snapshotManager().safelyGetAllSnapshots()) {
            nodes.add(JSON.readTree(snapshot.toJson()));
        }
        return answer;
    }

    private static ObjectNode files(JsonNode request) throws Exception {
        FileStoreTable table = storeTable(request);
        FileStoreScan scan = table.store().newScan();
        if (present(request, "snapshot")) {
            scan.withSnapshot(request.get("snapshot").asLong());
        }
        scan.withKind(ScanMode.valueOf(request.get("kind").asText().toUpperCase()));
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode nodes = answer.putArray("files");
        for (ManifestEntry entry : scan.plan().files()) {
            ObjectNode node = describe(entry.file(), table);
            node.put("kind", entry.kind().name());
            node.set("partition", partition(entry.partition(), table));
            node.put("bucket", entry.bucket()).put("total_buckets", entry.totalBuckets());
            nodes.add(node);
        }
        return answer;
    }

    private static ObjectNode describe(DataFileMeta file, FileStoreTable table) {
        ObjectNode node = JSON.createObjectNode();
        node.put("file_name", file.fileName()).put("file_size", file.fileSize());
        node.put("level", file.level()).put("row_count", file.rowCount());
        node.put("delete_row_count", file.deleteRowCount().orElse(null));
        node.put("min_sequence_number", file.minSequenceNumber());
        node.put("max_sequence_number", file.maxSequenceNumber());
        node.put("schema_id", file.schemaId());
        node.put("file_source", file.fileSource().map(Enum::name).orElse(null));
        RowType keyType = table.schema().logicalTrimmedPrimaryKeysType();
        boolean keyed = keyType.getFieldCount() > 0;
        node.set("min_key", keyed ? Values.encodeNamed(file.minKey(), keyType) : null);
        node.set("max_key", keyed ? Values.encodeNamed(file.maxKey(), keyType) : null);
        return node;
    }

    private static ObjectNode describe(Split split, Table table) {
        ObjectNode node = JSON.createObjectNode();
        if (split instanceof DataSplit && table instanceof FileStoreTable) {
            DataSplit data = (DataSplit) split;
            node.put("snapshot", data.snapshotId()).put("bucket", data.bucket());
            node.put("file_count", data.dataFiles().size());
            node.put("raw_convertible", data.rawConvertible());
            node.set("partition", partition(data.partition(), (FileStoreTable) table));
        }
        return node;
    }

    private static ObjectNode partition(InternalRow partition, FileStoreTable table) {
        return Values.encodeNamed(partition, table.schema().logicalPartitionType());
    }

    private static ArrayNode columns(RowType type) {
        ArrayNode columns = JSON.createArrayNode();
        for (int i = 0; i < type.getFieldCount(); i++) {
            ArrayNode column = columns.addArray();
            column.add(type.getFieldNames().get(i)).add(Values.form(type.getTypeAt(i)));
        }
        return columns;
    }

    // ---------------------------------------------------------------- JSON

    private static void line(BufferedWriter out, JsonNode node) {
        try {
            out.write(node.toString());
            out.write('\n');
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static boolean present(JsonNode request, String field) {
        return request.hasNonNull(field);
    }

    private static List<String> texts(JsonNode node) {
        List<String> texts = new ArrayList<>();
        if (node != null) {
            node.forEach(text -> texts.add(text.asText()));
        }
        return texts;
    }

    private static Map<String, String> strings(JsonNode node) {
        Map<String, String> strings = new LinkedHashMap<>();
        if (node != null) {
            node.fields().forEachRemaining(f -> strings.put(f.getKey(), f.getValue().asText()));
        }
        return strings;
    }
}
