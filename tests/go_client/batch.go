package main

// The bytes of a batch: written by hand, because they have to be canonical, and read by the Arrow library.

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

const (
	keyColumn        = 1
	valueColumn      = 2
	attributesColumn = 4
	createdColumn    = 8
	idColumn         = 64
)

// Row is a message as it is published.
type Row struct {
	Key        []byte            `json:"key"`
	Value      []byte            `json:"value"`
	Attributes map[string]string `json:"attributes"`
	Created    int64             `json:"created"`
	ID         string            `json:"id"`
}

// body gathers buffers and nodes, in the order of the columns.
type body struct {
	buffers [][]byte
	nodes   [][2]int64
}

func encode(rows []Row) (columns uint32, batch []byte) {
	var b body
	if b.texts(len(rows), func(i int) []byte { return rows[i].Key }) {
		columns |= keyColumn
	}
	if b.texts(len(rows), func(i int) []byte { return rows[i].Value }) {
		columns |= valueColumn
	}
	if b.attributes(rows) {
		columns |= attributesColumn
	}
	if b.moments(len(rows), func(i int) int64 { return rows[i].Created }) {
		columns |= createdColumn
	}
	ids := func(i int) []byte {
		if rows[i].ID == "" {
			return nil
		}
		return []byte(rows[i].ID)
	}
	if b.texts(len(rows), ids) {
		columns |= idColumn
	}
	if columns == 0 { // nothing but nulls: `value` stands for them
		columns = valueColumn
		b.add(len(rows), len(rows), make([]byte, (len(rows)+7)/8), make([]byte, 4*len(rows)+4), nil)
	}
	return columns, b.message(len(rows))
}

func (b *body) add(length, nulls int, buffers ...[]byte) {
	b.nodes = append(b.nodes, [2]int64{int64(length), int64(nulls)})
	b.buffers = append(b.buffers, buffers...)
}

// texts adds a column of bytes, nil for null; it says whether there was anything to add.
func (b *body) texts(rows int, at func(int) []byte) bool {
	validity, nulls := bitmap(rows, func(i int) bool { return at(i) != nil })
	if nulls == rows {
		return false
	}
	offsets, data := binary.LittleEndian.AppendUint32(nil, 0), []byte{}
	for i := 0; i < rows; i++ {
		data = append(data, at(i)...)
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(data)))
	}
	b.add(rows, nulls, validity, offsets, data)
	return true
}

// moments adds a column of times, 0 for null.
func (b *body) moments(rows int, at func(int) int64) bool {
	validity, nulls := bitmap(rows, func(i int) bool { return at(i) != 0 })
	if nulls == rows {
		return false
	}
	var data []byte
	for i := 0; i < rows; i++ {
		data = binary.LittleEndian.AppendUint64(data, uint64(at(i)))
	}
	b.add(rows, nulls, validity, data)
	return true
}

func (b *body) attributes(rows []Row) bool {
	validity, nulls := bitmap(len(rows), func(i int) bool { return rows[i].Attributes != nil })
	if nulls == len(rows) {
		return false
	}
	offsets, names, values := binary.LittleEndian.AppendUint32(nil, 0), []string{}, []string{}
	for _, row := range rows {
		for name, value := range row.Attributes {
			names, values = append(names, name), append(values, value)
		}
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(names)))
	}
	b.add(len(rows), nulls, validity, offsets)
	b.add(len(names), 0, nil)
	b.strings(names)
	b.strings(values)
	return true
}

// strings adds texts without nulls; there may be none of them.
func (b *body) strings(texts []string) {
	offsets, data := binary.LittleEndian.AppendUint32(nil, 0), []byte{}
	for _, text := range texts {
		data = append(data, text...)
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(data)))
	}
	b.add(len(texts), 0, nil, offsets, data)
}

// bitmap is there only if something is null.
func bitmap(rows int, there func(int) bool) (bits []byte, nulls int) {
	bits = make([]byte, (rows+7)/8)
	for i := 0; i < rows; i++ {
		if there(i) {
			bits[i/8] |= 1 << (i % 8)
		} else {
			nulls++
		}
	}
	if nulls == 0 {
		return nil, 0
	}
	return bits, nulls
}

var (
	tables  = []byte{20, 0, 0, 0, 0, 0, 0, 0, 12, 0, 22, 0, 6, 0, 5, 0, 8, 0, 12, 0, 12, 0, 0, 0, 0, 3, 4, 0, 24, 0, 0, 0}
	further = []byte{0, 0, 10, 0, 24, 0, 12, 0, 4, 0, 8, 0, 10, 0, 0, 0}
)

func (b *body) message(rows int) []byte {
	var length int64
	var places []byte
	for _, buffer := range b.buffers {
		places = binary.LittleEndian.AppendUint64(places, uint64(length))
		places = binary.LittleEndian.AppendUint64(places, uint64(len(buffer)))
		length += int64(len(buffer)+7) &^ 7
	}
	buffers, nodes := len(b.buffers), len(b.nodes)
	out := []byte{0xff, 0xff, 0xff, 0xff}
	out = binary.LittleEndian.AppendUint32(out, uint32(96+16*buffers+16*nodes-8))
	out = append(out, tables...)
	out = binary.LittleEndian.AppendUint64(out, uint64(length))
	out = append(out, further...)
	out = binary.LittleEndian.AppendUint32(out, uint32(28+16*buffers))
	out = append(out, 16, 0, 0, 0)
	out = binary.LittleEndian.AppendUint64(out, uint64(rows))
	out = append(out, 0, 0, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(buffers))
	out = append(out, places...)
	out = append(out, 0, 0, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(nodes))
	for _, node := range b.nodes {
		out = binary.LittleEndian.AppendUint64(out, uint64(node[0]))
		out = binary.LittleEndian.AppendUint64(out, uint64(node[1]))
	}
	for _, buffer := range b.buffers {
		out = append(out, buffer...)
		out = append(out, make([]byte, -len(buffer)&7)...)
	}
	return out
}

var moment = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}

var fields = []arrow.Field{
	{Name: "key", Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: "value", Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: "attributes", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String), Nullable: true},
	{Name: "created", Type: moment, Nullable: true},
	{Name: "due", Type: moment, Nullable: true},
	{Name: "expires", Type: moment, Nullable: true},
	{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true},
}

var endOfStream = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// decode gives a batch to the Arrow library behind a schema message for its mask.
func decode(columns uint32, batch []byte) (arrow.RecordBatch, error) {
	var wanted []arrow.Field
	for bit, field := range fields {
		if columns&(1<<bit) != 0 {
			wanted = append(wanted, field)
		}
	}
	var stream bytes.Buffer
	writer := ipc.NewWriter(&stream, ipc.WithSchema(arrow.NewSchema(wanted, nil)))
	if err := writer.Close(); err != nil {
		return nil, err
	}
	stream.Truncate(stream.Len() - len(endOfStream))
	stream.Write(batch)
	stream.Write(endOfStream)
	reader, err := ipc.NewReader(&stream)
	if err != nil {
		return nil, err
	}
	if !reader.Next() {
		return nil, fmt.Errorf("the batch cannot be read: %v", reader.Err())
	}
	return reader.RecordBatch(), nil
}

// column is the one of that name, nil if the batch has none.
func column(batch arrow.RecordBatch, name string) arrow.Array {
	if batch == nil {
		return nil
	}
	for i, field := range batch.Schema().Fields() {
		if field.Name == name {
			return batch.Column(i)
		}
	}
	return nil
}

func bytesAt(from arrow.Array, row int) []byte {
	if from == nil || from.IsNull(row) {
		return nil
	}
	return append([]byte{}, from.(*array.Binary).Value(row)...)
}

func momentAt(from arrow.Array, row int) int64 {
	if from == nil || from.IsNull(row) {
		return 0
	}
	return int64(from.(*array.Timestamp).Value(row))
}

func attributesAt(from arrow.Array, row int) map[string]string {
	if from == nil || from.IsNull(row) {
		return nil
	}
	entries := from.(*array.Map)
	names, values := entries.Keys().(*array.String), entries.Items().(*array.String)
	first, end := entries.ValueOffsets(row)
	found := map[string]string{}
	for i := int(first); i < int(end); i++ {
		found[names.Value(i)] = values.Value(i)
	}
	return found
}
