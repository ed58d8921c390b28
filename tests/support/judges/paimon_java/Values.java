import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Blob;
import org.apache.paimon.data.BlobData;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.GenericVariant;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;

/**
 * Paimon's values as JSON and back, with every digit kept.
 *
 * <p>Decimals and times are text, bytes are hex, NaN and infinities are their names, a map is a list
 * of pairs, a row is an object. Inside nested values such texts wear a tag ("$decimal") because the
 * reader of the JSON does not know the inner types.
 */
final class Values {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private Values() {}

    /** How the Python side has to read a column of this type. */
    static String form(DataType type) {
        switch (type.getTypeRoot()) {
            case DECIMAL:
                return "decimal";
            case BINARY:
            case VARBINARY:
            case BLOB:
                return "bytes";
            case FLOAT:
            case DOUBLE:
                return "float";
            case ARRAY:
            case MAP:
            case MULTISET:
            case ROW:
                return "nested";
            default:
                return "plain";
        }
    }

    static ArrayNode encodeRow(InternalRow row, RowType type) {
        ArrayNode values = JSON.arrayNode(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            values.add(encode(field(row, type, i), type.getTypeAt(i)));
        }
        return values;
    }

    /** A row by column name; for partitions and keys, which hold scalars only. */
    static ObjectNode encodeNamed(InternalRow row, RowType type) {
        ObjectNode values = JSON.objectNode();
        for (int i = 0; i < type.getFieldCount(); i++) {
            String name = type.getFieldNames().get(i);
            values.set(name, tagged(field(row, type, i), type.getTypeAt(i)));
        }
        return values;
    }

    private static Object field(InternalRow row, RowType type, int i) {
        return InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row);
    }

    private static JsonNode tagged(Object value, DataType type) {
        String form = form(type);
        JsonNode node = encode(value, type);
        if (node.isNull() || form.equals("plain") || form.equals("nested")) {
            return node;
        }
        return JSON.objectNode().set("$" + form, node);
    }

    private static JsonNode encode(Object value, DataType type) {
        if (value == null) {
            return JSON.nullNode();
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return JSON.booleanNode((Boolean) value);
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case BIGINT:
                return JSON.numberNode(((Number) value).longValue());
            case FLOAT:
            case DOUBLE:
                double number = ((Number) value).doubleValue();
                boolean finite = !Double.isNaN(number) && !Double.isInfinite(number);
                return finite ? JSON.numberNode(number) : JSON.textNode(String.valueOf(number));
            case DECIMAL:
                return JSON.textNode(((Decimal) value).toBigDecimal().toPlainString());
            case BINARY:
            case VARBINARY:
                return JSON.textNode(HexFormat.of().formatHex((byte[]) value));
            case BLOB:
                return JSON.textNode(HexFormat.of().formatHex(((Blob) value).toData()));
            case DATE:
                return JSON.textNode(LocalDate.ofEpochDay((Integer) value).toString());
            case TIME_WITHOUT_TIME_ZONE:
                return JSON.textNode(text(LocalTime.ofNanoOfDay((Integer) value * 1_000_000L)));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return JSON.textNode(text(((Timestamp) value).toLocalDateTime()));
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Instant instant = ((Timestamp) value).toInstant();
                return JSON.textNode(text(LocalDateTime.ofInstant(instant, ZoneOffset.UTC)) + "Z");
            case ARRAY:
                return elements((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                MapType map = (MapType) type;
                return pairs((InternalMap) value, map.getKeyType(), map.getValueType());
            case MULTISET:
                DataType element = ((MultisetType) type).getElementType();
                return pairs((InternalMap) value, element, DataTypes.INT());
            case ROW:
                return encodeNamed((InternalRow) value, (RowType) type);
            case VARIANT:
                return JSON.textNode(((Variant) value).toJson(ZoneOffset.UTC));
            default:
                return JSON.textNode(value.toString());
        }
    }

    private static ArrayNode elements(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        ArrayNode nodes = JSON.arrayNode(array.size());
        for (int i = 0; i < array.size(); i++) {
            nodes.add(tagged(getter.getElementOrNull(array, i), type));
        }
        return nodes;
    }

    private static ObjectNode pairs(InternalMap map, DataType keyType, DataType valueType) {
        ArrayNode keys = elements(map.keyArray(), keyType);
        ArrayNode values = elements(map.valueArray(), valueType);
        ArrayNode pairs = JSON.arrayNode(keys.size());
        for (int i = 0; i < keys.size(); i++) {
            pairs.add(JSON.arrayNode().add(keys.get(i)).add(values.get(i)));
        }
        return JSON.objectNode().set("$map", pairs);
    }

    /** The text of a time does not depend on its unit: no zeros at the end of the fraction. */
    private static String text(LocalTime time) {
        String whole =
                String.format("%02d:%02d:%02d", time.getHour(), time.getMinute(), time.getSecond());
        if (time.getNano() == 0) {
            return whole;
        }
        return whole + "." + String.format("%09d", time.getNano()).replaceAll("0+$", "");
    }

    private static String text(LocalDateTime time) {
        return time.toLocalDate() + "T" + text(time.toLocalTime());
    }

    static Object decode(JsonNode node, DataType type) {
        if (node == null || node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return node.booleanValue();
            case TINYINT:
                return (byte) Math.toIntExact(exactLong(node));
            case SMALLINT:
                return (short) Math.toIntExact(exactLong(node));
            case INTEGER:
                return Math.toIntExact(exactLong(node));
            case BIGINT:
                return exactLong(node);
            case FLOAT:
                return (float) number(node);
            case DOUBLE:
                return number(node);
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(node.asText()), decimal.getPrecision(), decimal.getScale());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(node.textValue());
            case BINARY:
            case VARBINARY:
                return HexFormat.of().parseHex(node.textValue());
            case BLOB:
                return new BlobData(HexFormat.of().parseHex(node.textValue()));
            case DATE:
                return (int) LocalDate.parse(node.textValue()).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE:
                return (int) (LocalTime.parse(node.textValue()).toNanoOfDay() / 1_000_000L);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return Timestamp.fromLocalDateTime(LocalDateTime.parse(node.textValue()));
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromInstant(Instant.parse(node.textValue()));
            case ARRAY:
                return decodeArray(node, ((ArrayType) type).getElementType());
            case MAP:
                MapType map = (MapType) type;
                return decodeMap(node, map.getKeyType(), map.getValueType());
            case MULTISET:
                return decodeMap(node, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW:
                return decodeRow(node, (RowType) type);
            case VARIANT:
                return GenericVariant.fromJson(node.textValue());
            default:
                throw new IllegalArgumentException("no JSON form for values of type " + type);
        }
    }

    static GenericRow decodeRow(JsonNode node, RowType type) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            row.setField(i, decode(node.get(type.getFieldNames().get(i)), type.getTypeAt(i)));
        }
        return row;
    }

    private static GenericArray decodeArray(JsonNode node, DataType type) {
        Object[] values = new Object[node.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = decode(node.get(i), type);
        }
        return new GenericArray(values);
    }

    private static GenericMap decodeMap(JsonNode node, DataType keyType, DataType valueType) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : node) {
            map.put(decode(pair.get(0), keyType), decode(pair.get(1), valueType));
        }
        return new GenericMap(map);
    }

    private static long exactLong(JsonNode node) {
        if (!node.isIntegralNumber() || !node.canConvertToLong()) {
            throw new IllegalArgumentException("not a 64-bit integer: " + node);
        }
        return node.longValue();
    }

    private static double number(JsonNode node) {
        return node.isTextual() ? Double.parseDouble(node.textValue()) : node.doubleValue();
    }
}
